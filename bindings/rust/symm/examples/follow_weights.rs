//! Reads the weights that another process of this user publishes by a name, in whatever language,
//! and goes from version to version at the addresses that it has. Started by: follow_weights <name>
//! [<how many versions>]

use std::time::Duration;
use symm::ipc::{Asleep, Bundle, Sleeper, import_bundle, lookup};
use symm::{Backend, Compare, Error, Result, Status};

const PATIENCE: Duration = Duration::from_secs(60);

/// Maps the next version: at the addresses of the one that was there, or anywhere.
fn map_next(name: &str, last: u64, mut asleep: Option<Asleep<Bundle>>) -> Result<(u64, Bundle)> {
    loop {
        let (version, token) = lookup(name, Compare::Gt, last, PATIENCE)?;
        let mapped = match asleep {
            None => import_bundle(&token).map_err(|error| (None, error)),
            Some(before) => before.resume_with(&token).map_err(|failed| {
                let (before, error) = *failed;
                (Some(before), error)
            }),
        };
        match mapped {
            Ok(model) => return Ok((version, model)),
            // It was withdrawn since it was found, so there is a newer one.
            Err((before, error)) if error.status == Status::InvalidHandle => asleep = before,
            Err((_, error)) => return Err(error),
        }
    }
}

/// What a program would compute with; here each array of f32 is added up.
fn describe(version: u64, model: &Bundle) -> Result<()> {
    let on_host = model.info()?.backend == Backend::Host;
    for index in 0..model.len() {
        let bytes = model.at::<u8>(index)?;
        let about = String::from_utf8_lossy(bytes.about());
        let name = bytes.name().unwrap_or("?");
        print!("version {version}: {name} is {about}");
        if on_host && about.starts_with("f32[") {
            let elements = model.at::<f32>(index)?;
            let sum: f32 = (0..elements.len()).map(|at| elements.load(at)).sum();
            println!(", adds up to {sum}");
        } else {
            println!(", {} bytes at {:p}", bytes.len(), bytes.as_ptr());
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments
        .next()
        .expect("usage: follow_weights <name> [<versions>]");
    let versions = arguments.next().map_or(1, |text| {
        text.parse::<u32>().expect("how many versions, a number")
    });

    let (mut version, mut model) = map_next(&name, 0, None)?;
    describe(version, &model)?;
    for _ in 1..versions {
        // Until the next one is there, this process keeps no memory.
        let asleep = model.suspend().map_err(|failed| failed.1)?;
        (version, model) = map_next(&name, version, Some(asleep))?;
        describe(version, &model)?;
    }
    Ok::<(), Error>(())
}
