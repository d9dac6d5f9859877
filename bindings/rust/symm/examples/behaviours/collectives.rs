//! Collectives of the table: one function for each, for elements of any type.

use crate::line::Line;
use crate::runner::Runner;
use half::{bf16, f16};
use symm::{Batch, Blocks, Collective, Element, F8E4M3, Raw, Reduces, Result, RmsNorm};

pub fn run<T: Element>(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    if r.batch.is_some() {
        return note::<T>(r, line);
    }
    if line.has("result") {
        return match T::DTYPE {
            f16::DTYPE => changed::<f16, f32>(r, line, "F32"),
            bf16::DTYPE => changed::<bf16, f32>(r, line, "F32"),
            f32::DTYPE => changed::<f32, bf16>(r, line, "BF16"),
            _ => panic!("only f32 and narrow floats have another result"),
        };
    }
    match line.verb {
        "allreduce" => allreduce::<T>(r, line),
        "reduce_scatter" => reduce_scatter::<T>(r, line),
        "allgather" => allgather::<T>(r, line),
        "broadcast" => broadcast::<T>(r, line),
        "reduce" => reduce::<T>(r, line),
        "reduce_by" => reduce_by::<T>(r, line),
        "scan" | "exscan" => prefix::<T>(r, line),
        "alltoall" => alltoall::<T>(r, line),
        "gather" => gather::<T>(r, line),
        "scatter" => scatter::<T>(r, line),
        "allgatherv" => allgatherv::<T>(r, line),
        "reduce_scatterv" => reduce_scatterv::<T>(r, line),
        "alltoallv" => alltoallv::<T>(r, line),
        "alltoallv_device" => alltoallv_device::<T>(r, line),
        "allgather_rows" => allgather_rows::<T>(r, line),
        "reduce_scatter_rows" => reduce_scatter_rows::<T>(r, line),
        "gatherv" => gatherv::<T>(r, line),
        "scatterv" => scatterv::<T>(r, line),
        "broadcast_bytes" => broadcast_bytes::<T>(r, line),
        "allreduce_rmsnorm" => allreduce_rmsnorm::<T>(r, line),
        verb => panic!("unknown verb {verb}"),
    }
}

type Operand<T> = Raw<'static, T>;

/// Both operands. A call in place uses the longer one.
fn operands<T: Element>(
    r: &Runner,
    line: &Line<'_>,
    of_send: usize,
    of_recv: usize,
) -> (Operand<T>, Operand<T>) {
    let send = r.operand(line, "send", of_send);
    let recv = r.operand(line, "recv", of_recv);
    (send, recv)
}

fn in_place(line: &Line<'_>) -> bool {
    line.flag("in_place")
}

/// Elements of the parts of all ranks, each of `count` elements.
fn all_parts(r: &Runner, line: &Line<'_>, count: usize) -> usize {
    count.saturating_mul(r.group(line).size())
}

/// The last rank wins.
fn reduce_by<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let count = line.get("count");
    let what = match line.text("collective") {
        "ALLREDUCE" => Collective::Allreduce,
        "REDUCE" => Collective::Reduce,
        "REDUCE_SCATTER" => Collective::ReduceScatter,
        "SCAN" => Collective::Scan,
        "EXSCAN" => Collective::Exscan,
        _ => Collective::Allgather,
    };
    let sent = if what == Collective::ReduceScatter {
        all_parts(r, line, count)
    } else {
        count
    };
    let (send, mut recv) = operands::<T>(r, line, sent, count);
    let root = line.get_or("root", 0);
    r.group(line)
        .reduce_by(what, (&send, &mut recv), 1, root, |into, other| {
            into.copy_from_slice(other);
        })
}

fn allreduce<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let count = line.get("count");
    let (mut send, mut recv) = operands::<T>(r, line, count, count);
    if in_place(line) {
        r.group(line).allreduce_in_place(&mut send, line.op())
    } else {
        r.group(line).allreduce(&send, &mut recv, line.op())
    }
}

fn reduce_scatter<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let count = line.get("count");
    let (mut send, mut recv) = operands::<T>(r, line, all_parts(r, line, count), count);
    if in_place(line) {
        r.group(line).reduce_scatter_in_place(&mut send, line.op())
    } else {
        r.group(line).reduce_scatter(&send, &mut recv, line.op())
    }
}

fn allgather<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let count = line.get("count");
    let (send, mut recv) = operands::<T>(r, line, count, all_parts(r, line, count));
    if in_place(line) {
        r.group(line).allgather_in_place(&mut recv)
    } else {
        r.group(line).allgather(&send, &mut recv)
    }
}

fn broadcast<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let count = line.get("count");
    let root = line.get_or("root", 0);
    let (mut send, mut recv) = operands::<T>(r, line, count, count);
    if in_place(line) {
        r.group(line).broadcast_in_place(&mut send, root)
    } else {
        r.group(line).broadcast(&send, &mut recv, root)
    }
}

fn reduce<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let count = line.get("count");
    let root = line.get_or("root", 0);
    let (mut send, mut recv) = operands::<T>(r, line, count, count);
    if in_place(line) {
        r.group(line).reduce_in_place(&mut send, line.op(), root)
    } else {
        r.group(line).reduce(&send, &mut recv, line.op(), root)
    }
}

fn prefix<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let count = line.get("count");
    let (mut send, mut recv) = operands::<T>(r, line, count, count);
    let group = r.group(line);
    match (line.verb, in_place(line)) {
        ("scan", true) => group.scan_in_place(&mut send, line.op()),
        ("scan", false) => group.scan(&send, &mut recv, line.op()),
        (_, true) => group.exscan_in_place(&mut send, line.op()),
        (_, false) => group.exscan(&send, &mut recv, line.op()),
    }
}

fn alltoall<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let all = all_parts(r, line, line.get("count"));
    let (mut send, mut recv) = operands::<T>(r, line, all, all);
    if in_place(line) {
        r.group(line).alltoall_in_place(&mut send)
    } else {
        r.group(line).alltoall(&send, &mut recv)
    }
}

/// Elements of the one operand of gather and scatter in place, which is all parts on the root.
fn own_parts(r: &Runner, line: &Line<'_>, count: usize, root: usize) -> usize {
    if r.group(line).rank() == root {
        all_parts(r, line, count)
    } else {
        count
    }
}

fn gather<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let count = line.get("count");
    let root = line.get_or("root", 0);
    if in_place(line) {
        let own = own_parts(r, line, count, root);
        let (_, mut recv) = operands::<T>(r, line, count, own);
        return r.group(line).gather_in_place(&mut recv, root);
    }
    let (send, mut recv) = operands::<T>(r, line, count, all_parts(r, line, count));
    r.group(line).gather(&send, &mut recv, root)
}

fn scatter<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let count = line.get("count");
    let root = line.get_or("root", 0);
    if in_place(line) {
        let own = own_parts(r, line, count, root);
        let (mut send, _) = operands::<T>(r, line, own, count);
        return r.group(line).scatter_in_place(&mut send, root);
    }
    let (send, mut recv) = operands::<T>(r, line, all_parts(r, line, count), count);
    r.group(line).scatter(&send, &mut recv, root)
}

/// Counts and displacements of one operand; a collective without them has empty lists.
struct Lists {
    counts: Vec<usize>,
    displacements: Vec<usize>,
}

impl Lists {
    fn new(line: &Line<'_>, name: &str) -> Self {
        Self {
            counts: line.list(&format!("{name}_counts")),
            displacements: line.list(&format!("{name}_displacements")),
        }
    }

    fn blocks(&self) -> Blocks<'_> {
        if self.displacements.is_empty() {
            Blocks::packed(&self.counts)
        } else {
            Blocks::at(&self.counts, &self.displacements)
        }
    }

    /// Both as the numbers that a call on a device reads.
    fn numbers(&self) -> (Vec<u64>, Vec<u64>) {
        let numbers = |list: &[usize]| list.iter().map(|n| *n as u64).collect();
        (numbers(&self.counts), numbers(&self.displacements))
    }
}

fn allgatherv<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let of_recv = Lists::new(line, "recv");
    let blocks = of_recv.blocks();
    let (send, mut recv) = operands::<T>(r, line, of_recv.counts[r.rank], blocks.end());
    r.group(line).allgatherv(&send, &mut recv, blocks)
}

fn reduce_scatterv<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let of_send = Lists::new(line, "send");
    let blocks = of_send.blocks();
    let (send, mut recv) = operands::<T>(r, line, blocks.end(), of_send.counts[r.rank]);
    r.group(line)
        .reduce_scatterv(&send, blocks, &mut recv, line.op())
}

fn broadcast_bytes<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let (send, mut recv) = operands::<T>(r, line, line.get("count"), line.get("capacity"));
    let root = line.get_or("root", 0);
    let came = r.group(line).broadcast_bytes(&send, &mut recv, root)?;
    line.expect("expected", came);
    Ok(())
}

fn gatherv<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let of_recv = Lists::new(line, "recv");
    let blocks = of_recv.blocks();
    let root = line.get_or("root", 0);
    let (send, mut recv) = operands::<T>(r, line, line.get("count"), blocks.end());
    r.group(line).gatherv(&send, &mut recv, blocks, root)
}

fn scatterv<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let of_send = Lists::new(line, "send");
    let blocks = of_send.blocks();
    let root = line.get_or("root", 0);
    let (send, mut recv) = operands::<T>(r, line, blocks.end(), line.get("count"));
    r.group(line).scatterv(&send, blocks, &mut recv, root)
}

fn alltoallv<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let of_send = Lists::new(line, "send");
    let of_recv = Lists::new(line, "recv");
    let (sent, received) = (of_send.blocks(), of_recv.blocks());
    let (send, mut recv) = operands::<T>(r, line, sent.end(), received.end());
    r.group(line).alltoallv(&send, sent, &mut recv, received)
}

fn alltoallv_device<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let of_send = Lists::new(line, "send");
    let of_recv = Lists::new(line, "recv");
    let sent = line.get_or("send_capacity", of_send.blocks().end());
    let received = line.get_or("recv_capacity", of_recv.blocks().end());
    let (send, mut recv) = operands::<T>(r, line, sent, received);

    let (counts, at) = of_send.numbers();
    let (recv_counts, recv_at) = of_recv.numbers();
    r.group(line)
        .alltoallv_device(&send, (&counts, &at), &mut recv, (&recv_counts, &recv_at))
}

fn allgather_rows<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let rows: usize = line.get("rows");
    let stride: usize = line.get("recv_stride");
    let count: usize = line.get("count");
    let (send, mut recv) = operands::<T>(r, line, rows * count, rows * stride);
    r.group(line).allgather_rows(&send, &mut recv, rows, stride)
}

fn reduce_scatter_rows<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let rows: usize = line.get("rows");
    let stride: usize = line.get("send_stride");
    let count: usize = line.get("count");
    let (send, mut recv) = operands::<T>(r, line, rows * stride, rows * count);
    r.group(line)
        .reduce_scatter_rows(&send, &mut recv, rows, stride, line.op())
}

fn allreduce_rmsnorm<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let tokens: usize = line.get("tokens");
    let hidden: usize = line.get("hidden");
    let all = tokens * hidden;
    let scales = match line.find("quant_scale") {
        Some("GROUP") => all / 128,
        _ => tokens,
    };

    let send = r.operand::<T>(line, "send", all);
    let weight = r.operand::<T>(line, "weight", hidden);
    let residual_in = optional::<T>(r, line, "residual_in", all);
    let mut residual_out = optional::<T>(r, line, "residual_out", all);
    let mut norm_out = optional::<T>(r, line, "norm_out", all);
    let mut quant_out = optional::<F8E4M3>(r, line, "quant_out", all);
    let scale_in = optional::<f32>(r, line, "scale_in", 1);
    let mut scale_out = optional::<f32>(r, line, "scale_out", scales);

    let mut norm = RmsNorm::new(&weight);
    norm.epsilon = f64::from_bits(1); // nothing
    norm.weight_offset = f32::from(line.get_or::<i16>("weight_offset", 0));
    norm.residual_in = residual_in.as_ref().map(|one| one as _);
    norm.residual_out = residual_out.as_mut().map(|one| one as _);
    norm.norm_out = norm_out.as_mut().map(|one| one as _);
    norm.quant_out = quant_out.as_mut().map(|one| one as _);
    norm.scale_in = scale_in.as_ref().map(|one| one as _);
    norm.scale_out = scale_out.as_mut().map(|one| one as _);
    r.group(line).allreduce_rmsnorm(&send, norm)
}

/// An operand that a line may leave out.
fn optional<T: Element>(r: &Runner, line: &Line<'_>, key: &str, len: usize) -> Option<Operand<T>> {
    line.has(key).then(|| r.operand(line, key, len))
}

/// A reduction into elements of another type, which the table calls `result`.
fn changed<T: Reduces<U>, U: Element>(r: &Runner, line: &Line<'_>, result: &str) -> Result<()> {
    assert_eq!(line.text("result"), result);
    let count = line.get("count");
    let send = r.operand::<T>(line, "send", count);
    let mut recv = r.operand::<U>(line, "recv", count);
    match line.verb {
        "allreduce" => r.group(line).allreduce(&send, &mut recv, line.op()),
        "reduce" => {
            let root = line.get("root");
            r.group(line).reduce(&send, &mut recv, line.op(), root)
        }
        verb => panic!("{verb} has no other result"),
    }
}

/// An operand that lives as long as any batch.
fn kept<T: Element>(operand: Operand<T>) -> &'static mut Operand<T> {
    Box::leak(Box::new(operand))
}

/// Adds a call to the batch that is being collected.
fn note<T: Element>(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let how = r.group(line);
    let mut batch = r.batch.take().expect("a batch");
    batch.with(&how)?;
    let noted = if line.has("result") {
        note_widened::<bf16>(r, line, &mut batch)
    } else {
        match line.verb {
            "allgatherv" | "reduce_scatterv" | "alltoallv" | "alltoallv_device" | "gatherv"
            | "scatterv" => note_blocks::<T>(r, line, &mut batch),
            "allreduce_rmsnorm" => note_rmsnorm::<T>(r, line, &mut batch),
            _ => note_plain::<T>(r, line, &mut batch),
        }
    };
    r.batch = Some(batch);
    noted
}

fn note_widened<T: Reduces<f32>>(
    r: &Runner,
    line: &Line<'_>,
    batch: &mut Batch<'static>,
) -> Result<()> {
    assert_eq!((line.text("dtype"), line.text("result")), ("BF16", "F32"));
    assert_eq!(line.verb, "allreduce");
    let count = line.get("count");
    let send = kept(r.operand::<T>(line, "send", count));
    let recv = kept(r.operand::<f32>(line, "recv", count));
    batch.allreduce(send, recv, line.op()).map(drop)
}

fn note_plain<T: Element>(r: &Runner, line: &Line<'_>, batch: &mut Batch<'static>) -> Result<()> {
    let count: usize = line.get("count");
    let all = all_parts(r, line, count);
    let root = line.get_or("root", 0);
    let in_place = in_place(line);
    let operands = |of_send, of_recv| {
        let (send, recv) = operands::<T>(r, line, of_send, of_recv);
        (kept(send), kept(recv))
    };
    match line.verb {
        "allreduce" if in_place => batch.allreduce_in_place(operands(count, count).0, line.op()),
        "allreduce" => {
            let (send, recv) = operands(count, count);
            batch.allreduce(send, recv, line.op())
        }
        "scan" => {
            let (send, recv) = operands(count, count);
            batch.scan(send, recv, line.op())
        }
        "exscan" => {
            let (send, recv) = operands(count, count);
            batch.exscan(send, recv, line.op())
        }
        "allgather" => {
            let (send, recv) = operands(count, all);
            batch.allgather(send, recv)
        }
        "broadcast" => {
            let (send, recv) = operands(count, count);
            batch.broadcast(send, recv, root)
        }
        "gather" => {
            let (send, recv) = operands(count, all);
            batch.gather(send, recv, root)
        }
        "scatter" => {
            let (send, recv) = operands(all, count);
            batch.scatter(send, recv, root)
        }
        "allgather_rows" => {
            let rows: usize = line.get("rows");
            let stride: usize = line.get("recv_stride");
            let (send, recv) = operands(rows * count, rows * stride);
            batch.allgather_rows(send, recv, rows, stride)
        }
        "reduce_scatter_rows" => {
            let rows: usize = line.get("rows");
            let stride: usize = line.get("send_stride");
            let (send, recv) = operands(rows * stride, rows * count);
            batch.reduce_scatter_rows(send, recv, rows, stride, line.op())
        }
        verb => panic!("the table has no {verb} in a batch"),
    }
    .map(drop)
}

fn note_blocks<T: Element>(r: &Runner, line: &Line<'_>, batch: &mut Batch<'static>) -> Result<()> {
    let of_send: &'static Lists = Box::leak(Box::new(Lists::new(line, "send")));
    let of_recv: &'static Lists = Box::leak(Box::new(Lists::new(line, "recv")));
    let (sent, received) = (of_send.blocks(), of_recv.blocks());
    let own = |lists: &Lists| lists.counts[r.rank];
    let operands = |of_send, of_recv| {
        let (send, recv) = operands::<T>(r, line, of_send, of_recv);
        (kept(send), kept(recv))
    };
    match line.verb {
        "allgatherv" => {
            let (send, recv) = operands(own(of_recv), received.end());
            batch.allgatherv(send, recv, received)
        }
        "reduce_scatterv" => {
            let (send, recv) = operands(sent.end(), own(of_send));
            batch.reduce_scatterv(send, sent, recv, line.op())
        }
        "gatherv" => {
            let root = line.get_or("root", 0);
            let (send, recv) = operands(line.get("count"), received.end());
            batch.gatherv(send, recv, received, root)
        }
        "scatterv" => {
            let root = line.get_or("root", 0);
            let (send, recv) = operands(sent.end(), line.get("count"));
            batch.scatterv(send, sent, recv, root)
        }
        "alltoallv" => {
            let (send, recv) = operands(sent.end(), received.end());
            batch.alltoallv(send, sent, recv, received)
        }
        _ => {
            let (send, recv) = operands(line.get("send_capacity"), line.get("recv_capacity"));
            let [counts, at] = lists_in_memory(of_send);
            let [recv_counts, recv_at] = lists_in_memory(of_recv);
            batch.alltoallv_device(send, (counts, at), recv, (recv_counts, recv_at))
        }
    }
    .map(drop)
}

fn lists_in_memory(lists: &Lists) -> [&'static Vec<u64>; 2] {
    let (counts, at) = lists.numbers();
    [Box::leak(Box::new(counts)), Box::leak(Box::new(at))]
}

fn note_rmsnorm<T: Element>(r: &Runner, line: &Line<'_>, batch: &mut Batch<'static>) -> Result<()> {
    let tokens: usize = line.get("tokens");
    let hidden: usize = line.get("hidden");
    let send = kept(r.operand::<T>(line, "send", tokens * hidden));
    let weight = kept(r.operand::<T>(line, "weight", hidden));
    let norm_out = kept(r.operand::<T>(line, "norm_out", tokens * hidden));
    let mut norm = RmsNorm::new(weight);
    norm.epsilon = f64::from_bits(1); // nothing
    norm.norm_out = Some(norm_out);
    batch.allreduce_rmsnorm(send, norm).map(drop)
}
