//! A listener on 127.0.0.1 with a thread of its own, so that it works while the test's runtime is busy.

use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// It ends, and cuts its connections, when dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// On a port that the kernel chooses; each connection is a task.
    pub(crate) fn start<F, T>(serve: F) -> Serving
    where
        F: Fn(TcpStream) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        listener.set_nonblocking(true).expect("listen without blocking");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || run(listener, &serve, stopped));
        Serving { address, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run<F, T>(listener: TcpListener, serve: &F, stopped: oneshot::Receiver<()>)
where
    F: Fn(TcpStream) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("start a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("listen");
        let accept = async {
            loop {
                let Ok((stream, _peer)) = listener.accept().await else { continue };
                tokio::spawn(serve(stream));
            }
        };
        tokio::select! {
            _ = stopped => {}
            () = accept => {}
        }
    });
}
