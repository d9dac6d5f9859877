// SPDX-License-Identifier: Apache-2.0
//! One line of the table, and the values in it as one rank reads them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use symm::symm_sys as sys;

pub const RANKS: usize = 3;

const CONSTANTS: &[(&str, i32)] = &[
    ("DTYPE_I8", sys::SYMM_DTYPE_I8),
    ("DTYPE_I32", sys::SYMM_DTYPE_I32),
    ("DTYPE_I64", sys::SYMM_DTYPE_I64),
    ("DTYPE_U8", sys::SYMM_DTYPE_U8),
    ("DTYPE_U32", sys::SYMM_DTYPE_U32),
    ("DTYPE_U64", sys::SYMM_DTYPE_U64),
    ("DTYPE_F16", sys::SYMM_DTYPE_F16),
    ("DTYPE_F32", sys::SYMM_DTYPE_F32),
    ("DTYPE_F64", sys::SYMM_DTYPE_F64),
    ("DTYPE_BF16", sys::SYMM_DTYPE_BF16),
    ("DTYPE_F8E4M3", sys::SYMM_DTYPE_F8E4M3),
    ("DTYPE_F8E5M2", sys::SYMM_DTYPE_F8E5M2),
    ("OP_SUM", sys::SYMM_OP_SUM),
    ("OP_AVG", sys::SYMM_OP_AVG),
    ("OP_MIN", sys::SYMM_OP_MIN),
    ("OP_MAX", sys::SYMM_OP_MAX),
    ("OP_PROD", sys::SYMM_OP_PROD),
    ("ALGORITHM_AUTO", sys::SYMM_ALGORITHM_AUTO),
    ("ALGORITHM_LL", sys::SYMM_ALGORITHM_LL),
    ("ALGORITHM_ONE_SHOT", sys::SYMM_ALGORITHM_ONE_SHOT),
    ("ALGORITHM_TWO_SHOT", sys::SYMM_ALGORITHM_TWO_SHOT),
    ("ALGORITHM_TWO_SHOT_STAGED", sys::SYMM_ALGORITHM_TWO_SHOT_STAGED),
    ("STATUS_OK", sys::SYMM_OK),
    ("STATUS_INVALID_ARGUMENT", sys::SYMM_ERR_INVALID_ARGUMENT),
    ("STATUS_INVALID_HANDLE", sys::SYMM_ERR_INVALID_HANDLE),
    ("STATUS_UNSUPPORTED", sys::SYMM_ERR_UNSUPPORTED),
    ("STATUS_TIMEOUT", sys::SYMM_ERR_TIMEOUT),
    ("STATUS_ABORTED", sys::SYMM_ERR_ABORTED),
    ("STATUS_PEER_FAILED", sys::SYMM_ERR_PEER_FAILED),
    ("STATUS_MISMATCH", sys::SYMM_ERR_MISMATCH),
    ("STATUS_BUSY", sys::SYMM_ERR_BUSY),
];

fn number(text: &str) -> Result<i64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| format!("{text}: {error}"))
}

/// The value of `SYMM_<kind>_<name>`; a number stands for itself.
pub fn constant(kind: &str, name: &str) -> Result<i32, String> {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return number(name).map(|value| value as i32);
    }
    let full = format!("{kind}_{name}");
    CONSTANTS
        .iter()
        .find(|(name, _)| *name == full)
        .map(|(_, value)| *value)
        .ok_or(format!("no constant is called {full}"))
}

pub struct Line {
    /// Whether this rank runs it.
    pub mine: bool,
    pub verb: String,
    /// The status with which it must fail, and words of the message.
    pub failure: Option<(String, Vec<String>)>,
    rank: usize,
    values: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl Line {
    pub fn new(text: &str, rank: usize) -> Result<Self, String> {
        let (call, failure) = match text.split_once(" -> ") {
            Some((call, failure)) => (call, Some(failure.split_once(": ").ok_or("a failure without words")?)),
            None => (text, None),
        };
        let failure =
            failure.map(|(status, words)| (status.to_owned(), words.split(" & ").map(str::to_owned).collect()));
        let mut words = call.split_whitespace();
        let (ranks, verb) = (words.next().ok_or("no ranks")?, words.next().ok_or("no verb")?);
        let mine = ranks == "all" || ranks.split(',').any(|one| one == rank.to_string());
        let pair = |word: &str| {
            let (key, value) = word.split_once('=').ok_or(format!("no key=value: {word}"))?;
            Ok::<_, String>((key.to_owned(), value.to_owned()))
        };
        let values = words.map(pair).collect::<Result<_, _>>()?;
        Ok(Self { mine, verb: verb.to_owned(), failure, rank, values, used: RefCell::default() })
    }

    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    pub fn text(&self, key: &str) -> Result<&str, String> {
        self.used.borrow_mut().insert(key.to_owned());
        self.values.get(key).map(String::as_str).ok_or(format!("{} without {key}=", self.verb))
    }

    pub fn text_or<'a>(&'a self, key: &str, otherwise: &'a str) -> Result<&'a str, String> {
        if self.has(key) { self.text(key) } else { Ok(otherwise) }
    }

    pub fn integer(&self, key: &str) -> Result<i64, String> {
        self.parse(self.text(key)?)
    }

    pub fn integer_or(&self, key: &str, otherwise: i64) -> Result<i64, String> {
        if self.has(key) { self.integer(key) } else { Ok(otherwise) }
    }

    /// A number that is not negative.
    pub fn size(&self, key: &str) -> Result<usize, String> {
        self.integer(key).and_then(|value| usize::try_from(value).map_err(|_| format!("{key} is negative")))
    }

    pub fn size_or(&self, key: &str, otherwise: usize) -> Result<usize, String> {
        if self.has(key) { self.size(key) } else { Ok(otherwise) }
    }

    /// A constant whose kind is the key's.
    pub fn constant(&self, key: &str) -> Result<i32, String> {
        constant(&key.to_uppercase(), self.text(key)?)
    }

    pub fn constant_or(&self, key: &str, otherwise: i32) -> Result<i32, String> {
        if self.has(key) { self.constant(key) } else { Ok(otherwise) }
    }

    /// Name and bytes of `m+128`.
    pub fn address(&self, key: &str) -> Result<(&str, usize), String> {
        let (name, offset) = self.text(key)?.split_once('+').ok_or(format!("{key} is no address"))?;
        Ok((name, usize::try_from(self.parse(offset)?).map_err(|error| error.to_string())?))
    }

    pub fn ranks(&self, key: &str) -> Result<Vec<usize>, String> {
        let all = self.text_or(key, "")?.split(':').filter(|one| !one.is_empty());
        all.map(|one| one.parse().map_err(|error| format!("{one}: {error}"))).collect()
    }

    /// `f=a:b:m:c` of a rank and an index.
    pub fn formula(&self) -> Result<impl Fn(i64, i64) -> i64 + use<>, String> {
        let numbers = self.text("f")?.split(':').map(number).collect::<Result<Vec<_>, _>>()?;
        let [a, b, m, c] = numbers[..] else { return Err("f is not a:b:m:c".into()) };
        Ok(move |rank, i| (a * rank + b * i) % m + c)
    }

    /// A key that nobody asked for is a mistake in the table or here.
    pub fn require_all_used(&self) -> Result<(), String> {
        let used = self.used.borrow();
        match self.values.keys().find(|key| !used.contains(*key)) {
            Some(key) => Err(format!("{} has no key {key}", self.verb)),
            None => Ok(()),
        }
    }

    fn parse(&self, value: &str) -> Result<i64, String> {
        let by_rank: Vec<&str> = value.split(',').collect();
        match if by_rank.len() == 1 { by_rank[0] } else { by_rank.get(self.rank).ok_or(format!("{value}: too few"))? } {
            "self" => Ok(self.rank as i64),
            "left" => Ok(((self.rank + RANKS - 1) % RANKS) as i64),
            "right" => Ok(((self.rank + 1) % RANKS) as i64),
            one => number(one),
        }
    }
}
