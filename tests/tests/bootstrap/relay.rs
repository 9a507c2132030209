//! A way to an API server that can be cut.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Takes connections on the loopback and passes them on, while it is not cut.
pub(crate) struct Relay {
    address: SocketAddr,
    /// Number of cuts and repairs: odd while it is cut.
    turns: watch::Sender<u64>,
    task: AbortHandle,
}

impl Relay {
    /// Passes on to the API server with this URL.
    pub(crate) async fn to(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let target = url.strip_prefix("https://").expect("https").to_owned();
        let turns = watch::Sender::new(0);
        let state = turns.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass_on(near, target.clone(), state.clone()));
            }
        });
        Self {
            address,
            turns,
            task: task.abort_handle(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Breaks all connections, and new ones as soon as they are made.
    pub(crate) fn cut(&self) {
        self.turns.send_modify(|turns| *turns |= 1);
    }

    /// Ends [`Relay::cut`]; what it broke stays broken.
    pub(crate) fn mend(&self) {
        self.turns.send_modify(|turns| *turns += *turns & 1);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(mut near: TcpStream, target: String, mut turns: watch::Receiver<u64>) {
    let begun = *turns.borrow();
    if begun % 2 == 1 {
        return;
    }
    let Ok(mut far) = TcpStream::connect(target).await else {
        return;
    };
    tokio::select! {
        // How it ended is for its ends to notice.
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = turns.wait_for(|turns| *turns != begun) => {}
    }
}
