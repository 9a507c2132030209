//! `kubectl mcs ui`: serves a live page about clusters and services on 127.0.0.1.
//!
//! One loop (`live.rs`) follows hub and members and reports on each changed service as `status` and
//! `explain` do. The loop sends the reports to the streams of the page (`feed.rs`, `server.rs`).

mod assets;
mod browser;
mod controller;
mod feed;
mod guard;
mod live;
mod queue;
mod rights;
mod server;
mod verifier;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::feed::Feed;
use self::guard::{Guard, ONCE, Token};
use self::live::Live;
use self::verifier::Verifier;
use crate::args::UiArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::kubeconfig;
use crate::observe::follow::follow;
use crate::observe::kubeconfigs;
use crate::observe::scope::{Breadth, Scope};
use crate::term::exit::{CommandError, Failure};
use crate::term::interrupt::interrupted;
use crate::term::output::{self, OutputError};
use crate::views::ui::{ServerRow, VerifyRow};

/// Capacity of the channel of [`live::Note`]s.
const NOTES: usize = 64;

/// Failure to serve the page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UiError {
    #[error(
        "cannot serve on {address}: {source}; choose another port with --port, or leave it out"
    )]
    Bind {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("the page can no longer be served: {0}")]
    Serve(std::io::Error),
    #[error("what is shown cannot be written: {0}")]
    Json(serde_json::Error),
    #[error("cannot wait for Ctrl-C: {0}")]
    Signal(std::io::Error),
    #[error("the watches have ended: {0}")]
    Watches(tokio::task::JoinError),
}

impl CommandError for UiError {}

/// Serves the page until Ctrl-C.
pub(crate) async fn run(args: &HubArgs, ui: &UiArgs) -> Result<(), Failure> {
    let hub = kubeconfigs::hub(args, &ui.pods.members).await?;
    let namespace = args.namespace.clone();
    rights::check(&hub, namespace.as_deref()).await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ui.port));
    let failed = |source| UiError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let (token, once) = (Token::random()?, Token::random()?);
    let url = format!("http://127.0.0.1:{port}/{}/", token.as_str());
    // Other users of the machine can read the arguments of the browser.
    let opened = format!("http://127.0.0.1:{port}/{ONCE}/{}", once.as_str());
    let (feed, requests) = Feed::new();
    let feed = Arc::new(feed);
    let (sender, notes) = mpsc::channel(NOTES);
    let verifier = ui.verify.then(|| {
        let verifier = Verifier::new(args.clone(), ui.pods.clone(), sender.clone());
        Arc::new(verifier)
    });
    let guard = Guard::new(token, once, port);
    let router = server::router(guard, feed.clone(), verifier.clone());
    let row = ServerRow {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        context: context(args).unwrap_or_default(),
        hub: hub.url(),
        namespace: namespace.clone(),
        verify: verifier.as_ref().map(|_| VerifyRow::default()),
        ..ServerRow::default()
    };
    greet(ui, &url, &opened)?;
    let scope = Scope {
        namespace,
        name: None,
        allow_insecure: ui.insecure.allow_insecure_members,
        breadth: Breadth::Everything,
    };
    let (follow, changes) = follow(hub.clone(), scope);
    let live = Live::new(row, follow, feed, sender.clone());
    // Dropping the set stops the task.
    let mut tasks = JoinSet::new();
    tasks.spawn(controller::follow(hub, ui.controller.lease.clone(), sender));
    let ended = tokio::select! {
        ended = live.run(changes, notes, requests) => ended.map_err(UiError::Json),
        ended = axum::serve(listener, router) => ended.map_err(UiError::Serve),
        Some(ended) = tasks.join_next() => ended.map_err(UiError::Watches),
        ended = interrupted() => ended.map_err(UiError::Signal),
    };
    if let Some(verifier) = verifier {
        verifier.end().await;
    }
    Ok(ended?)
}

/// Prints the address of the page, and opens the browser at the one-time address.
fn greet(ui: &UiArgs, url: &str, once: &str) -> Result<(), OutputError> {
    output::result(url)?;
    output::progress("Serving until Ctrl-C. Whoever has this address sees what you may see.")?;
    if ui.verify {
        output::progress("With it anybody may also start verify, with your rights.")?;
    }
    if !ui.no_browser
        && browser::is_there()
        && let Err(error) = browser::open(once)
    {
        output::progress(format_args!(
            "No browser opened ({error}); open the address yourself."
        ))?;
    }
    Ok(())
}

/// Returns the name of the current kubeconfig context.
fn context(args: &HubArgs) -> Option<String> {
    if args.context.is_some() {
        return args.context.clone();
    }
    let loaded = kubeconfig::load(args.kubeconfig.as_deref());
    loaded.ok()?.kubeconfig.current_context
}
