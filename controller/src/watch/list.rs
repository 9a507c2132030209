//! A list, page by page.
//!
//! Most lists are a page, which is read where the watch is. What is longer may be read by other
//! threads: there a page keeps nobody waiting, and the objects of several API servers are decoded
//! at one time. Its connection ends with it.

use causeway_engine::model::{Failure, FailureKind};
use kube::Resource;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::decoder::Decoder;
use super::relist_requests::Connect;
use super::source::{PageRequest, Read, Source, kind};

/// Objects of the first page, whose size nobody knows.
const FIRST_PAGE: u32 = 50;
/// However large objects are, so many make a page.
const LAST_PAGE: u32 = 2;
/// Bytes of a page around its objects.
const ENVELOPE: usize = 64 * 1024;
/// Pages that may hold no object.
const EMPTY_PAGES: usize = 1000;

/// The objects of a page, each with its bytes.
pub(super) type Objects<K> = Vec<(Read<K>, usize)>;

/// Part of a list.
enum Step<K> {
    /// A page, after which there are others.
    Page(Objects<K>),
    /// Its pages have expired: what was read of it counts no more.
    Again,
    /// The last page, and the version of the state that all of them are of.
    Last(Objects<K>, String),
}

/// Progress of a list.
struct Cursor {
    token: Option<String>,
    limit: Option<u32>,
    pages: usize,
    objects: usize,
    bytes: usize,
    /// Buffer of a page's text, which later pages reuse.
    held: Vec<u8>,
}

/// Reader of the pages after the first.
enum Rest<K, D> {
    Here(Cursor),
    Elsewhere {
        steps: mpsc::Receiver<Result<Step<K>, Failure>>,
        reading: AbortOnDropHandle<D>,
    },
}

impl Cursor {
    fn at_first(page: u32) -> Self {
        Self {
            token: None,
            limit: Some(page.min(FIRST_PAGE)),
            pages: 0,
            objects: 0,
            bytes: 0,
            held: Vec::new(),
        }
    }
}

impl<K, D> Source<K, D>
where
    K: Resource<DynamicType: Default> + Send + 'static,
    D: Decoder<K>,
{
    /// All pages of a list of the most recent state, each object with its bytes. A list whose pages
    /// expire is asked for in one piece.
    ///
    /// # Errors
    /// Where a page is refused, does not come in time, or more is sent than is listened to.
    pub(super) async fn list<T>(
        &mut self,
        connect: Option<&Connect>,
        read: impl Fn(Read<K>, usize) -> T,
    ) -> Result<(Vec<T>, String), Failure> {
        let mut listed = Vec::new();
        let mut take = |step| {
            let (page, version) = match step {
                Step::Page(page) => (page, None),
                Step::Last(page, version) => (page, Some(version)),
                Step::Again => {
                    listed.clear();
                    return None;
                }
            };
            let page = page.into_iter();
            listed.extend(page.map(|(object, bytes)| read(object, bytes)));
            version
        };
        let mut cursor = Cursor::at_first(self.settings.page);
        if let Some(version) = take(self.step(&mut cursor).await?) {
            return Ok((listed, version));
        }
        let _turn = self.turn().await;
        let mut rest = match (connect, &self.settings.long_lists) {
            (Some(connect), Some(threads)) => self.elsewhere(cursor, connect.clone(), threads),
            _ => Rest::Here(cursor),
        };
        loop {
            let step = self.next(&mut rest).await?;
            if let Some(version) = take(step) {
                if let Rest::Elsewhere { reading, .. } = rest {
                    self.decoder = ended(reading).await?;
                }
                return Ok((listed, version));
            }
        }
    }

    async fn next(&mut self, rest: &mut Rest<K, D>) -> Result<Step<K>, Failure> {
        match rest {
            Rest::Here(cursor) => self.step(cursor).await,
            Rest::Elsewhere { steps, reading } => match steps.recv().await {
                Some(step) => step,
                None => Err(ended(reading).await.err().unwrap_or_else(cut_short)),
            },
        }
    }

    /// Has other threads read the rest of a list.
    fn elsewhere(&self, mut cursor: Cursor, connect: Connect, threads: &Handle) -> Rest<K, D> {
        let (tell, steps) = mpsc::channel(1);
        let mut source = self.clone();
        let reading = threads.spawn(async move {
            match connect() {
                Ok(client) => source.client = client,
                Err(failure) => {
                    tell.send(Err(failure)).await.ok();
                    return source.decoder;
                }
            }
            loop {
                let step = source.step(&mut cursor).await;
                let is_last = matches!(step, Ok(Step::Last(..)) | Err(_));
                let is_awaited = tell.send(step).await.is_ok();
                if is_last || !is_awaited {
                    return source.decoder;
                }
            }
        });
        let reading = AbortOnDropHandle::new(reading);
        Rest::Elsewhere { steps, reading }
    }

    /// The next page.
    async fn step(&mut self, cursor: &mut Cursor) -> Result<Step<K>, Failure> {
        loop {
            let left = self.settings.limits.bytes.saturating_sub(cursor.bytes);
            // As many bytes as the shortest page may have: a longer one is asked for again,
            // shorter.
            let shortest = self.settings.limits.object_bytes * LAST_PAGE as usize + ENVELOPE;
            let most = cursor.limit.map_or(left, |_| left.min(shortest));
            let mut objects = Vec::with_capacity(cursor.limit.unwrap_or_default() as usize);
            let take = |object, bytes| objects.push((object, bytes));
            let request = PageRequest {
                limit: cursor.limit,
                token: cursor.token.as_deref(),
                most,
                objects_left: self.settings.limits.objects.saturating_sub(cursor.objects),
            };
            let page = self.page(request, &mut cursor.held, take);
            match page.await {
                Ok(Some(read)) => {
                    cursor.pages += 1;
                    cursor.bytes += read.bytes;
                    cursor.objects += read.objects;
                    self.check(cursor.objects, cursor.bytes)?;
                    if cursor.pages > cursor.objects + EMPTY_PAGES {
                        return Err(self.settings.limits.too_many_pages(&kind::<K>()));
                    }
                    if read.page.token.is_none() {
                        return Ok(Step::Last(objects, read.page.version));
                    }
                    let next = self.limit_after(read.objects, read.bytes);
                    cursor.token = read.page.token;
                    cursor.limit = cursor.limit.map(|_| next);
                    return Ok(Step::Page(objects));
                }
                // The objects of this page are larger than those before.
                Ok(None) if cursor.limit.is_some_and(|limit| limit > LAST_PAGE) && most < left => {
                    cursor.limit = Some(LAST_PAGE);
                }
                Ok(None) => {
                    let kind = kind::<K>();
                    let is_shortest = cursor.limit.is_some() && most == shortest;
                    return Err(match is_shortest {
                        true => self.settings.limits.too_large(&kind),
                        false => self.settings.limits.too_many_bytes(&kind),
                    });
                }
                Err(failure) if failure.kind == FailureKind::Expired && cursor.token.is_some() => {
                    (cursor.token, cursor.limit) = (None, None);
                    (cursor.pages, cursor.objects, cursor.bytes) = (0, 0, 0);
                    return Ok(Step::Again);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Returns the number of objects to request next, from the bytes of the objects so far.
    fn limit_after(&self, objects: usize, bytes: usize) -> u32 {
        let each = (bytes / objects.max(1)).max(1);
        let fitting = u32::try_from(self.settings.page_bytes / each).unwrap_or(u32::MAX);
        fitting.clamp(LAST_PAGE, self.settings.page.max(LAST_PAGE))
    }
}

/// Returns the result of the other threads. A panic there is one here.
async fn ended<D>(
    reading: impl Future<Output = Result<D, tokio::task::JoinError>>,
) -> Result<D, Failure> {
    match reading.await {
        Ok(decoder) => Ok(decoder),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(cut_short()),
    }
}

/// The threads end with the process.
fn cut_short() -> Failure {
    Failure::new(FailureKind::Other, "the list was not read to its end")
}
