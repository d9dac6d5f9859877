fn main() -> symm::Result<()> {
    let group = symm::Group::from_env()?;
    let memory = group.memory::<f32>(1024)?;
    let next = (group.rank() + 1) % group.size();
    let previous = (group.rank() + group.size() - 1) % group.size();
    memory.put_signal(next, 0, &[group.rank() as f32; 8], 0)?;
    memory.wait_signal(previous, 0)?;
    assert_eq!(memory.view(group.rank())?.load(7), previous as f32);
    let mut sum = vec![0.0; 8];
    group.allreduce(&memory.span(..8)?, &mut sum, symm::Op::Sum)?;
    println!("rank {}: {sum:?}", group.rank());
    group.finalize()
}
