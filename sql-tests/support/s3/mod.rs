//! An S3 server over objects in memory, in a thread of the test.
//!
//! It verifies signatures, and knows users, grants and regions. It also understands what Google's clients say differently. It logs requests, and delays, limits and breaks its answers, as
//! tests demand it.

mod access;
mod error_answers;
mod faults;
mod front;
mod listing;
mod objects;
mod options;
mod request_log;
mod sending;
mod uploads;

pub use self::faults::{RequestFault, RequestHead};
pub use self::options::{S3Action, S3Bucket, S3ServerOptions, S3User, WrongRegionAnswer};
pub use self::request_log::ServedRequest;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object_store::memory::InMemory;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use self::access::{UserGrants, UserKeys};
use self::front::{S3Front, ServerConditions};
use self::objects::MemoryObjects;
use self::uploads::PendingUploads;

/// The size of hyper's buffers. Small ones let it send what comes before a cut, and count bytes when they leave.
const BUFFER: usize = 64 << 10;

/// A server, which stops when it is dropped.
pub struct S3Server {
    address: SocketAddr,
    objects: Arc<InMemory>,
    uploads: Arc<PendingUploads>,
    conditions: Arc<ServerConditions>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl S3Server {
    /// Starts a server on a free port.
    pub fn start(options: S3ServerOptions) -> Self {
        let options = Arc::new(options);
        let objects = Arc::new(InMemory::new());
        let uploads = Arc::new(PendingUploads::default());
        let conditions = Arc::new(ServerConditions::default());
        let front = Arc::new(S3Front {
            service: service(&options, &objects, &uploads),
            options,
            conditions: Arc::clone(&conditions),
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("s3-server".to_owned())
            .spawn(move || run(listener, front, stopped))
            .expect("a thread starts");
        Self {
            address,
            objects,
            uploads,
            conditions,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The address for path-style requests, such as `http://127.0.0.1:41234`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The objects of all buckets. The first segment of a path is the bucket.
    pub fn objects(&self) -> Arc<InMemory> {
        Arc::clone(&self.objects)
    }

    /// The number of uploads in parts that are neither complete nor aborted.
    pub fn open_uploads(&self) -> usize {
        self.uploads.count()
    }

    /// The requests that were answered or given up, in the order in which they began.
    pub fn requests(&self) -> Vec<ServedRequest> {
        self.conditions.log.requests()
    }

    /// Forgets the requests so far.
    pub fn clear(&self) {
        self.conditions.log.clear();
    }

    /// The length of the longest sequence of requests in which each begins after the one before has ended.
    ///
    /// Requests at the same time may follow each other by chance unless the server has a latency.
    pub fn chain(&self) -> usize {
        request_log::longest_chain(self.requests())
    }

    /// Sets the time that the server waits before it handles a request.
    pub fn set_latency(&self, latency: Duration) {
        self.conditions.set_latency(latency);
    }

    /// Limits the bytes per second of the bodies that the server sends, over all connections.
    pub fn set_bandwidth(&self, bytes_per_second: Option<u64>) {
        self.conditions.bandwidth.set(bytes_per_second);
    }

    /// Sets what goes wrong with requests from now on, which are numbered from 0.
    pub fn set_faults(&self, plan: impl Fn(&RequestHead) -> RequestFault + Send + Sync + 'static) {
        self.conditions.faults.set(Some(Arc::new(plan)));
    }

    /// Lets nothing go wrong from now on.
    pub fn clear_faults(&self) {
        self.conditions.faults.set(None);
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // The thread also stops when the sender is dropped.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !thread::panicking() {
                ended.expect("the server doesn't panic");
            }
        }
    }
}

fn service(
    options: &Arc<S3ServerOptions>,
    objects: &Arc<InMemory>,
    uploads: &Arc<PendingUploads>,
) -> S3Service {
    let mut builder = S3ServiceBuilder::new(MemoryObjects {
        objects: Arc::clone(objects),
        uploads: Arc::clone(uploads),
        options: Arc::clone(options),
    });
    builder.set_auth(UserKeys(Arc::clone(options)));
    builder.set_access(UserGrants(Arc::clone(options)));
    builder.build()
}

/// Serves connections until the server is dropped, and drops those that are left.
fn run(listener: std::net::TcpListener, front: Arc<S3Front>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("s3-server")
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        tokio::select! {
            () = accept(listener, front) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(listener: std::net::TcpListener, front: Arc<S3Front>) {
    let listener = listener
        .set_nonblocking(true)
        .and_then(|()| TcpListener::from_std(listener))
        .expect("tokio takes the listener");
    loop {
        let (stream, _) = listener.accept().await.expect("a connection is accepted");
        tokio::spawn(serve_connection(stream, Arc::clone(&front)));
    }
}

async fn serve_connection(stream: TcpStream, front: Arc<S3Front>) {
    let serve = service_fn(move |request| {
        let front = Arc::clone(&front);
        async move { front.serve(request).await }
    });
    // Without it, small answers wait for acknowledgements. A client that is gone doesn't need it.
    let _ = stream.set_nodelay(true);
    // Connections end with an error when they are cut, and when clients give up.
    let _ = http1::Builder::new()
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), serve)
        .await;
}
