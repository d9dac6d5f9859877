// SPDX-License-Identifier: Apache-2.0
//! The verbs that move bytes and signals.

use crate::Outcome;
use crate::line::Line;
use crate::runner::{Runner, timeout};

impl Runner {
    pub fn data(&mut self, line: &Line) -> Outcome {
        let memory = self.things.memory(line.text("memory")?)?;
        let rank = line.size("rank")?;
        // The keys that a verb does not have are not asked for, so that a mistake in the table is found.
        match line.verb.as_str() {
            "put" | "put_with_signal" => {
                let source = self.operand(line, "source", line.size("bytes")?)?;
                let offset = line.size("offset")?;
                if line.verb == "put" {
                    memory.put(rank, offset, &source)?;
                } else {
                    memory.put_with_signal(rank, offset, &source, line.size_or("channel", 0)?)?;
                }
            }
            "get" => {
                let mut destination = self.operand(line, "destination", line.size("bytes")?)?;
                memory.get(rank, line.size("offset")?, &mut destination)?;
            }
            "put_signal" => memory.put_signal(rank, line.size_or("channel", 0)?)?,
            "wait_signal" => memory.wait_signal_for(rank, line.size_or("channel", 0)?, timeout(line)?)?,
            // Words: the safe layer counts in them.
            "fill32" => {
                let (word, value) = (line.size("offset")? / 4, line.integer("value")? as u32);
                memory.cast::<u32>().fill(rank, word, value, line.size("count")?)?;
            }
            "write_value32" => {
                let (word, value) = (line.size("offset")? / 4, line.integer("value")? as u32);
                memory.cast::<u32>().write_value(rank, word, value)?;
            }
            verb => return Err(format!("unknown verb {verb}").into()),
        }
        Ok(())
    }
}
