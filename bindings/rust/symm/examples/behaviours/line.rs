// SPDX-License-Identifier: Apache-2.0
//! One line of the table, and the values in it as one rank reads them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Debug;

pub const RANKS: usize = 3;

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

pub struct Line {
    /// Whether this rank runs it.
    pub mine: bool,
    pub verb: String,
    /// The status with which it must fail, the rank that is to be blamed (-1: none), and words of the message.
    pub failure: Option<(String, Option<i64>, Vec<String>)>,
    rank: usize,
    values: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl Line {
    pub fn new(text: &str, rank: usize) -> Outcome<Self> {
        let (call, failure) = text.split_once(" -> ").map_or((text, None), |(call, failure)| (call, Some(failure)));
        let mut words = call.split_whitespace();
        let (ranks, verb) = (words.next().ok_or("no ranks")?, words.next().ok_or("no verb")?);
        let mine = ranks == "all" || ranks.split(',').any(|one| one == rank.to_string());
        let pair = |word: &str| {
            let (key, value) = word.split_once('=').ok_or(format!("no key=value: {word}"))?;
            Outcome::Ok((key.to_owned(), value.to_owned()))
        };
        let values = words.map(pair).collect::<Result<_, _>>()?;
        let mut line = Self { mine, verb: verb.to_owned(), failure: None, rank, values, used: RefCell::default() };
        if let Some(failure) = failure {
            let (status, words) = failure.split_once(": ").ok_or("a failure without words")?;
            let (status, blamed) =
                status.split_once(" rank=").map_or((status, None), |(status, rank)| (status, Some(rank)));
            let blamed = blamed.map(|rank| line.parse(rank)).transpose()?;
            line.failure = Some((status.to_owned(), blamed, words.split(" & ").map(str::to_owned).collect()));
        }
        Ok(line)
    }

    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    pub fn text(&self, key: &str) -> Outcome<&str> {
        self.used.borrow_mut().insert(key.to_owned());
        Ok(self.values.get(key).ok_or(format!("{} without {key}=", self.verb))?)
    }

    pub fn text_or<'a>(&'a self, key: &str, otherwise: &'a str) -> Outcome<&'a str> {
        if self.has(key) { self.text(key) } else { Ok(otherwise) }
    }

    /// An integer, in the type in which it is needed.
    pub fn get<T: TryFrom<i64>>(&self, key: &str) -> Outcome<T> {
        let value = self.parse(self.text(key)?)?;
        Ok(T::try_from(value).map_err(|_| format!("{key} is out of range"))?)
    }

    pub fn get_or<T: TryFrom<i64>>(&self, key: &str, otherwise: T) -> Outcome<T> {
        if self.has(key) { self.get(key) } else { Ok(otherwise) }
    }

    /// A constant, without the prefix of its enum; a number stands for itself.
    pub fn named<T: Debug>(&self, key: &str, from_raw: fn(i32) -> T) -> Outcome<T> {
        named(self.text(key)?, from_raw)
    }

    /// Name and bytes of `m+128`.
    pub fn address(&self, key: &str) -> Outcome<(&str, usize)> {
        let (name, offset) = self.text(key)?.split_once('+').ok_or(format!("{key} is no address"))?;
        Ok((name, self.parse(offset)?.try_into()?))
    }

    pub fn ranks(&self, key: &str) -> Outcome<Vec<usize>> {
        let all = self.text_or(key, "")?.split(':').filter(|one| !one.is_empty());
        Ok(all.map(str::parse).collect::<Result<_, _>>()?)
    }

    /// `f=a:b:m:c` of a rank and an index.
    pub fn formula(&self) -> Outcome<impl Fn(i64, i64) -> i64 + use<>> {
        let numbers = self.text("f")?.split(':').map(number).collect::<Outcome<Vec<_>>>()?;
        let [a, b, m, c] = numbers[..] else { return Err("f is not a:b:m:c".into()) };
        Ok(move |rank, i| (a * rank + b * i) % m + c)
    }

    /// The keys that are given are as seen.
    pub fn compare(&self, seen: &[(&str, usize)]) -> Outcome {
        for (key, seen) in seen {
            if self.get_or(key, *seen)? != *seen {
                return Err(format!("{key} is {seen}").into());
            }
        }
        Ok(())
    }

    /// A key that nobody asked for is a mistake in the table or here.
    pub fn require_all_used(&self) -> Outcome {
        let used = self.used.borrow();
        let unused = self.values.keys().find(|key| !used.contains(*key));
        unused.map_or(Ok(()), |key| Err(format!("{} has no key {key}", self.verb).into()))
    }

    fn parse(&self, value: &str) -> Outcome<i64> {
        let by_rank: Vec<&str> = value.split(',').collect();
        match if by_rank.len() == 1 { by_rank[0] } else { by_rank.get(self.rank).ok_or(format!("{value}: too few"))? } {
            "self" => Ok(self.rank as i64),
            "left" => Ok(((self.rank + RANKS - 1) % RANKS) as i64),
            "right" => Ok(((self.rank + 1) % RANKS) as i64),
            one => number(one),
        }
    }
}

pub fn number(text: &str) -> Outcome<i64> {
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| i64::from_str_radix(hex, 16));
    Ok(parsed.map_err(|error| format!("{text}: {error}"))?)
}

/// `INVALID_ARGUMENT` is the value that calls itself `InvalidArgument`.
pub fn named<T: Debug>(name: &str, from_raw: fn(i32) -> T) -> Outcome<T> {
    if let Ok(value) = number(name) {
        return Ok(from_raw(value as i32));
    }
    let plain = name.replace('_', "");
    let found = (-16..16).map(from_raw).find(|value| format!("{value:?}").to_uppercase() == plain);
    Ok(found.ok_or(format!("no constant is called {name}"))?)
}
