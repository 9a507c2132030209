//! causeway-tunnel and agents, as they are delivered, with certificates of one authority.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::ensure;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use causeway_certs::{Authority, Leaf, Purpose};
use causeway_tests::causeway::Launch;
use causeway_tests::reaper::{Program, Reaper};
use causeway_tests::{Running, binaries, ports};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::controller::environment::{SOON, until};
use crate::controller::sim::slices::member_name;

/// UID of the hub, which the certificates name.
const HUB: &str = "0b6e3c1e-93cb-4e0f-8f0e-6f0a4c9d1a55";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// One replica of causeway-tunnel.
pub(super) struct Tunnel {
    reaper: Arc<Reaper>,
    directory: tempfile::TempDir,
    authority: Authority,
    /// Address for agents.
    pub(super) agents: SocketAddr,
    /// Address for clients.
    pub(super) front: SocketAddr,
    pub(super) program: Running,
}

/// Way to an API server.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    Dialled(SocketAddr),
    /// By the agent of the member with that name.
    Tunnelled(&'a Tunnel, &'a str),
}

/// Behaviour of an API server on one connection.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Behaviour {
    Echoes = b'E' as isize,
    SendsWithoutEnd = b'S' as isize,
}

impl Tunnel {
    /// Starts the replica and waits until it is ready.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let authority = Authority::new("causeway-tunnel", DAY, SystemTime::now())?;
        let (reaper, directory) = (Reaper::start(), tempfile::tempdir()?);
        let [agents, front] = [ports::fresh(), ports::fresh()]
            .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let tls = directory.path().join("tunnel");
        let leaf = Leaf {
            addresses: vec![agents.ip()],
            uris: vec![format!("causeway://{HUB}/tunnel")],
            validity: DAY,
            ..Leaf::default()
        };
        issue(&authority, &tls, &leaf)?;
        let program = binaries::causeway("causeway-tunnel");
        let program = Program::new(program, tls.with_extension("log"))
            .arg(format!("--agents-bind={agents}"))
            .arg(format!("--front-bind={front}"))
            .arg(format!("--tls-dir={}", tls.display()));
        let launch = Launch::new(reaper.clone(), program, ports::fresh());
        Ok(Self {
            program: launch.start().await,
            reaper,
            directory,
            authority,
            agents,
            front,
        })
    }

    /// Issues the certificate of a member's agent and returns its directory.
    fn member(&self, directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
        let tls = directory.join(name);
        let leaf = Leaf {
            uris: vec![format!("causeway://{HUB}/member/{name}")],
            purpose: Purpose::Client,
            validity: DAY,
            ..Leaf::default()
        };
        issue(&self.authority, &tls, &leaf)?;
        Ok(tls)
    }

    /// Starts causeway-agent of a member. `tunnel` is the address of this replica or of a relay.
    pub(super) async fn agent(
        &self,
        name: &str,
        tunnel: SocketAddr,
        api: &str,
    ) -> anyhow::Result<Running> {
        let tls = self.member(self.directory.path(), name)?;
        let program = binaries::causeway("causeway-agent");
        let program = Program::new(program, tls.with_extension("log"));
        Ok(self.launch(program, &tls, tunnel, api).start().await)
    }

    /// Starts agents of so many members in one process and waits until they are connected.
    pub(super) async fn agents(&self, members: usize, api: &str) -> anyhow::Result<Running> {
        let tls = self.directory.path().join("members");
        for member in 0..members {
            self.member(&tls, &member_name(member))?;
        }
        let log = tls.with_extension("log");
        let program = Program::new(std::env::current_exe()?, log).arg("agents");
        let agents = self.launch(program, &tls, self.agents, api).start().await;
        self.connected(members).await?;
        Ok(agents)
    }

    fn launch(&self, program: Program, tls: &Path, tunnel: SocketAddr, api: &str) -> Launch {
        let program = program
            .arg(format!("--tunnel={tunnel}"))
            .arg(format!("--tls-dir={}", tls.display()))
            .arg(format!("--api-server={api}"));
        Launch::new(self.reaper.clone(), program, ports::fresh())
    }

    /// Waits until so many members are connected. Their agents are ready a moment earlier.
    pub(super) async fn connected(&self, members: usize) -> anyhow::Result<()> {
        let are_connected = async || {
            let answer = self.program.get("/tunnels").await.ok();
            let shown = answer.and_then(|(_, text)| serde_json::from_str(&text).ok());
            shown.is_some_and(|shown: Vec<Value>| {
                let connected = shown.iter().filter(|one| !one["connections"][0].is_null());
                connected.count() == members
            })
        };
        let what = format!("connected to {members} members");
        until(&what, self.program.process(), SOON, are_connected).await
    }

    async fn connect(&self, member: &str) -> anyhow::Result<TcpStream> {
        let user = BASE64_STANDARD.encode(format!("{member}:"));
        let request = format!(
            "CONNECT api:443 HTTP/1.1\r\nhost: api:443\r\nproxy-authorization: Basic {user}\r\n\r\n"
        );
        let mut socket = TcpStream::connect(self.front).await?;
        socket.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let more = socket.read_buf(&mut head).await?;
            // A refusal has a body.
            ensure!(more > 0, "no stream: {:?}", String::from_utf8_lossy(&head));
        }
        Ok(socket)
    }
}

impl Way<'_> {
    /// Opens a connection on which the API server behaves in that way.
    pub(super) async fn open(self, behaviour: Behaviour) -> anyhow::Result<TcpStream> {
        let mut socket = match self {
            Self::Dialled(api) => TcpStream::connect(api).await?,
            Self::Tunnelled(tunnel, member) => tunnel.connect(member).await?,
        };
        socket.set_nodelay(true)?;
        socket.write_u8(behaviour as u8).await?;
        Ok(socket)
    }
}

/// Writes a certificate of the authority into a directory, as a kubelet mounts it.
fn issue(authority: &Authority, directory: &Path, leaf: &Leaf) -> anyhow::Result<()> {
    let issued = authority.issue(leaf, SystemTime::now())?;
    std::fs::create_dir_all(directory)?;
    for (file, text) in [
        ("tls.crt", issued.certificate.as_str()),
        ("tls.key", issued.key.as_str()),
        ("ca.crt", authority.pem()),
    ] {
        std::fs::write(directory.join(file), text)?;
    }
    Ok(())
}

/// Serves connections in the place of an API server, each as its first byte says.
pub(super) async fn serve_api() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    Ok(address)
}

async fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    if socket.read_u8().await? == Behaviour::Echoes as u8 {
        let (mut input, mut output) = socket.split();
        tokio::io::copy(&mut input, &mut output).await?;
        return Ok(());
    }
    loop {
        socket.write_all(&[7; 64 * 1024]).await?;
    }
}
