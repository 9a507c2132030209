//! Agents of many members in one process, each as causeway-agent runs it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use causeway::process::{Process, open_files};
use causeway_tunnel::agent::{Address, Agent, Peers, Route};
use causeway_tunnel::credentials::Credentials;
use causeway_tunnel::limits::Limits;
use causeway_tunnel::metrics::Metrics;
use causeway_tunnel::splice::Shared;
use hyper_util::client::proxy::matcher::Matcher;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of causeway-tunnel
    #[arg(long)]
    tunnel: Address,
    /// Directory with one directory of a certificate for each member
    #[arg(long)]
    tls_dir: PathBuf,
    /// Address of the API server of all members
    #[arg(long)]
    api_server: String,
    #[arg(long)]
    admin_bind: SocketAddr,
}

/// Runs the agents until a signal ends the process.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    open_files::raise();
    crate::runtime()?.block_on(async {
        let process = Process::start(args.admin_bind).await?;
        for directory in std::fs::read_dir(&args.tls_dir)? {
            let metrics = Metrics::default();
            let peers = Peers {
                route: Route::Dialled(args.tunnel.clone()),
                proxies: Matcher::builder().build(),
                api: args.api_server.clone(),
                tokens: None,
            };
            let credentials = Credentials::read(&directory?.path(), &metrics)?;
            let shared = Shared::new(Limits::default(), &metrics);
            let agent = Agent::new(peers, credentials, shared, process.tasks.clone());
            process.tasks.spawn("connections", agent.run());
        }
        Ok(process.run(Duration::ZERO).await?)
    })
}
