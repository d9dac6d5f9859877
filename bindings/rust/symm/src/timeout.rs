//! How long a call may wait.

use std::time::Duration;
use symm_sys as sys;

/// Deadline of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeout {
    /// The group's own ([`GroupConfig::timeout`](crate::GroupConfig::timeout)).
    #[default]
    Group,
    /// This long, rounded up to milliseconds; zero is one millisecond.
    After(Duration),
    /// Only look: what is not there now is [`Status::Timeout`](crate::Status::Timeout), and nothing was taken. On the host, for what
    /// needs no other rank to act; `InvalidArgument` elsewhere.
    Now,
    /// None: wait for ever, or until the group fails.
    Never,
}

impl Timeout {
    pub(crate) fn as_millis(self) -> u64 {
        match self {
            Self::Group => 0,
            Self::Never => sys::SYMM_TIMEOUT_INFINITE,
            Self::Now => sys::SYMM_TIMEOUT_NOW,
            Self::After(time) => {
                let millis = time.as_nanos().div_ceil(1_000_000).max(1);
                u64::try_from(millis).unwrap_or(u64::MAX).min(sys::SYMM_TIMEOUT_NOW - 1)
            }
        }
    }

    /// As the options of a call that waits.
    pub(crate) fn options(self) -> sys::symm_wait_options_t {
        sized!(symm_wait_options_t: timeout_ms = self.as_millis())
    }
}

impl From<Duration> for Timeout {
    fn from(time: Duration) -> Self {
        Self::After(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_duration_means_the_default_or_no_deadline() {
        assert_eq!(Timeout::from(Duration::ZERO).as_millis(), 1);
        assert_eq!(Timeout::from(Duration::from_micros(1001)).as_millis(), 2);
        assert_eq!(Timeout::from(Duration::MAX).as_millis(), u64::MAX - 2);
        assert_eq!(Timeout::Now.as_millis(), u64::MAX - 1);
        assert_eq!(Timeout::Never.as_millis(), u64::MAX);
        assert_eq!(Timeout::default().as_millis(), 0);
    }
}
