//! Answering role: greets each caller, and echoes large data.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use causeway::listener::listen;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{EXCHANGE_WITHIN, LARGE, PORT, ProbeError};
use crate::term::exit::ExitState;

/// Maximum number of concurrent connections of the answering role.
const SERVED_AT_ONCE: usize = 64;
const GREETING: &str = "causeway-verify/1";

/// First line of the answering role: `causeway-verify/1 RUN CLUSTER ADDRESS`.
pub(super) struct Greeting<'a> {
    pub(super) cluster: &'a str,
    /// Address of the dialling pod, as observed by the answering role.
    pub(super) seen: IpAddr,
}

impl<'a> Greeting<'a> {
    /// Parses a greeting. Returns `None` for a greeting of another run or another program.
    pub(super) fn read(line: &'a str, run: &str) -> Option<Self> {
        let mut words = line.trim_end().split(' ');
        let is_ours = words.next() == Some(GREETING) && words.next() == Some(run);
        let (cluster, seen) = is_ours.then(|| words.next().zip(words.next())).flatten()?;
        let seen = seen.parse().ok()?;
        Some(Self { cluster, seen })
    }
}

/// Answers until the pod is deleted.
pub(super) async fn serve(run: &str, cluster: &str) -> Result<ExitState, ProbeError> {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
    let listener = listen(any).await.map_err(ProbeError::Listen)?;
    let greeting: Arc<str> = format!("{GREETING} {run} {cluster}").into();
    let free = Arc::new(Semaphore::new(SERVED_AT_ONCE));
    loop {
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else {
            return Ok(ExitState::Good);
        };
        let Ok((stream, caller)) = listener.accept().await else {
            continue;
        };
        let greeting = Arc::clone(&greeting);
        tokio::spawn(async move {
            // The dialling role reports a broken connection at its own end.
            let seen = caller.ip().to_canonical();
            let greeting = format!("{greeting} {seen}\n");
            timeout(2 * EXCHANGE_WITHIN, echo(stream, &greeting))
                .await
                .ok();
            drop(permit);
        });
    }
}

pub(super) async fn echo(mut stream: TcpStream, greeting: &str) -> io::Result<()> {
    stream.write_all(greeting.as_bytes()).await?;
    let mut data = [0; LARGE];
    stream.read_exact(&mut data).await?;
    stream.write_all(&data).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_of_other_runs_and_programs_name_no_cluster() {
        for (greeting, cluster) in [
            ("causeway-verify/1 r1 member1 10.0.0.1\n", Some("member1")),
            ("causeway-verify/1 r2 member1 10.0.0.1\n", None),
            ("causeway-verify/1 r1 member1 nowhere\n", None),
            ("HTTP/1.1 400 Bad Request\r\n", None),
            ("", None),
        ] {
            let read = Greeting::read(greeting, "r1");
            assert_eq!(read.map(|one| one.cluster), cluster, "{greeting:?}");
        }
    }
}
