//! One line of the table, and the values in it as one rank reads them. A mistake in the table is a panic.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::num::ParseIntError;

pub const RANKS: usize = 3;

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
    pub fn new(text: &str, rank: usize) -> Self {
        let (call, failure) = text.split_once(" -> ").map_or((text, None), |(call, failure)| (call, Some(failure)));
        let mut words = call.split_whitespace();
        let (ranks, verb) = (words.next().expect("ranks"), words.next().expect("a verb").to_owned());
        let mine = ranks == "all" || ranks.split(',').any(|one| one == rank.to_string());
        let pairs = words.map(|word| word.split_once('=').expect("key=value"));
        let values = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut line = Self { mine, verb, failure: None, rank, values, used: RefCell::default() };
        line.failure = failure.map(|failure| {
            let (status, words) = failure.split_once(": ").expect("a failure with words");
            let blamed = status.split_once(" rank=").map(|(_, rank)| line.parse(rank));
            let status = status.split(' ').next().unwrap_or_default().to_owned();
            (status, blamed, words.split(" & ").map(str::to_owned).collect())
        });
        line
    }

    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    pub fn text(&self, key: &str) -> &str {
        self.used.borrow_mut().insert(key.to_owned());
        self.values.get(key).unwrap_or_else(|| panic!("{} without {key}=", self.verb))
    }

    pub fn text_or<'a>(&'a self, key: &str, otherwise: &'a str) -> &'a str {
        if self.has(key) { self.text(key) } else { otherwise }
    }

    /// An integer, in the type in which it is needed.
    pub fn get<T: TryFrom<i64>>(&self, key: &str) -> T {
        T::try_from(self.parse(self.text(key))).unwrap_or_else(|_| panic!("{key} is out of range"))
    }

    pub fn get_or<T: TryFrom<i64>>(&self, key: &str, otherwise: T) -> T {
        if self.has(key) { self.get(key) } else { otherwise }
    }

    /// A constant, without the prefix of its enum; a number stands for itself.
    pub fn named<T: Debug>(&self, key: &str, from_raw: fn(i32) -> T) -> T {
        named(self.text(key), from_raw)
    }

    /// Name and bytes of `m+128`.
    pub fn address(&self, key: &str) -> (&str, usize) {
        let (name, offset) = self.text(key).split_once('+').expect("an address");
        (name, self.parse(offset).try_into().expect("an offset"))
    }

    pub fn ranks(&self, key: &str) -> Vec<usize> {
        let all = self.text_or(key, "").split(':').filter(|one| !one.is_empty());
        all.map(|one| one.parse().expect("a rank")).collect()
    }

    /// `f=a:b:m:c` of a rank and an index.
    pub fn formula(&self) -> impl Fn(i64, i64) -> i64 + use<> {
        let numbers: Vec<i64> = self.text("f").split(':').map(|text| number(text).expect("a number")).collect();
        let [a, b, m, c] = numbers[..] else { panic!("f is not a:b:m:c") };
        move |rank, i| (a * rank + b * i) % m + c
    }

    /// The key, if it is given, is as seen.
    pub fn same(&self, key: &str, seen: i64) {
        assert_eq!(seen, self.get_or(key, seen), "{key}");
    }

    /// A key that nobody asked for is a mistake in the table or here.
    pub fn use_all(&self) {
        self.used.borrow_mut().extend(self.values.keys().cloned());
    }

    pub fn require_all_used(&self) {
        let used = self.used.borrow();
        let unused = self.values.keys().find(|key| !used.contains(*key));
        assert!(unused.is_none(), "{} has no key {unused:?}", self.verb);
    }

    fn parse(&self, value: &str) -> i64 {
        let by_rank: Vec<&str> = value.split(',').collect();
        match if by_rank.len() == 1 { by_rank[0] } else { by_rank[self.rank] } {
            "self" => self.rank as i64,
            "left" => ((self.rank + RANKS - 1) % RANKS) as i64,
            "right" => ((self.rank + 1) % RANKS) as i64,
            one => number(one).unwrap_or_else(|error| panic!("{one}: {error}")),
        }
    }
}

pub fn number(text: &str) -> Result<i64, ParseIntError> {
    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| i64::from_str_radix(hex, 16))
}

/// `INVALID_ARGUMENT` is the value that calls itself `InvalidArgument`.
pub fn named<T: Debug>(name: &str, from_raw: fn(i32) -> T) -> T {
    if let Ok(value) = number(name) {
        return from_raw(value as i32);
    }
    let plain = name.replace('_', "");
    let found = (-16..16).map(from_raw).find(|value| format!("{value:?}").to_uppercase() == plain);
    found.unwrap_or_else(|| panic!("no constant is called {name}"))
}
