// SPDX-License-Identifier: Apache-2.0
//! The things of one scenario by their names.

use crate::line::Line;
use std::collections::BTreeMap;
use symm::{Buffer, Group, Memory};

/// A handle, or the address of one that was released.
pub enum Thing {
    Group(Group),
    Buffer(Buffer<u8>),
    Memory(Memory<u8>),
    /// A buffer that a memory has taken.
    Taken(*mut std::ffi::c_void),
    Released(*mut std::ffi::c_void),
}

#[derive(Default)]
pub struct Things {
    things: BTreeMap<String, Thing>,
    arrays: BTreeMap<String, Vec<u8>>,
}

impl Things {
    pub fn add(&mut self, name: &str, thing: Thing) {
        self.things.insert(name.to_owned(), thing);
    }

    pub fn add_array(&mut self, name: &str, bytes: usize) {
        self.arrays.insert(name.to_owned(), vec![0; bytes]);
    }

    pub fn array(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        self.arrays.get_mut(name)
    }

    pub fn get(&self, name: &str) -> Result<&Thing, String> {
        self.things.get(name).ok_or(format!("nothing is called {name}"))
    }

    pub fn group(&self, line: &Line) -> Result<Group, String> {
        match self.get(line.text_or("group", "group")?)? {
            Thing::Group(group) => Ok(group.clone()),
            _ => Err("that is no group".into()),
        }
    }

    pub fn memory(&self, name: &str) -> Result<Memory<u8>, String> {
        match self.get(name)? {
            Thing::Memory(memory) => Ok(memory.clone()),
            _ => Err(format!("{name} is no memory")),
        }
    }

    /// Takes a buffer, which then belongs to a memory.
    pub fn take_buffer(&mut self, name: &str) -> Result<Buffer<u8>, String> {
        let raw = match self.get(name)? {
            Thing::Buffer(buffer) => buffer.as_raw().cast(),
            _ => return Err(format!("{name} is no buffer")),
        };
        match self.things.insert(name.to_owned(), Thing::Taken(raw)) {
            Some(Thing::Buffer(buffer)) => Ok(buffer),
            _ => Err(format!("{name} is no buffer")),
        }
    }

    /// Drops a handle and remembers where it was.
    pub fn release(&mut self, name: &str) -> Result<(), String> {
        let raw = match self.get(name)? {
            Thing::Group(group) => group.as_raw().cast(),
            Thing::Buffer(buffer) => buffer.as_raw().cast(),
            Thing::Memory(memory) => memory.as_raw().cast(),
            Thing::Taken(raw) | Thing::Released(raw) => *raw,
        };
        self.add(name, Thing::Released(raw));
        Ok(())
    }
}
