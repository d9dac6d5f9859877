// SPDX-License-Identifier: Apache-2.0
//
// The questions, and the roles of the processes that they start. `gpus` is 1 or 2.
#pragma once

namespace experiments {

void fence(int gpus, int trials);
void counter_role(int device);  // counts words of another process up until it is killed

void exporter_killed();
void unread_descriptor();
void exporter_role(long value);  // makes memory filled with a value, hands out its descriptor, waits

void abort_latency();
void abort_polling(int gpus);

void barriers_on_streams(int gpus);

void aborted_group();

void killed_imports(int gpus);
void importer_role(int device);  // imports, maps, allows, unmaps in a loop until it is killed

void override_of_wait();
void consumer_role();  // holds another process' memory, and does not write the word it should

}  // namespace experiments
