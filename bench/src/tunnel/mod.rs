//! causeway-tunnel and causeway-agent, as they are delivered, on the loopback.

pub(crate) mod agents;
mod changes;
mod environment;
mod fleet;
mod streams;

use causeway::process::open_files;

use crate::controller::environment::Environment;
use crate::report::Row;

pub(crate) fn run(quick: bool) -> anyhow::Result<Vec<Row>> {
    open_files::raise();
    let env = Environment::new()?;
    crate::runtime()?.block_on(async {
        let mut rows = streams::measure(quick).await?;
        rows.extend(fleet::memory(quick).await?);
        rows.extend(fleet::cpu(&env, quick).await?);
        rows.extend(fleet::restart(&env, quick).await?);
        rows.extend(changes::measure(&env, quick).await?);
        rows.extend(changes::cut(&env, quick).await?);
        Ok(rows)
    })
}
