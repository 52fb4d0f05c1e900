//! One attempt of a model call over HTTP: a request, and its reply as it comes.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::stream::{self, Stream};
use helix_agents_core::model::{EventStream, ModelError, ModelErrorKind, ModelEvent, ModelRequest};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;

use super::endpoint::{Endpoint, transport_error};
use super::failure::{self, Confidential};
use super::sse::SseParser;
use super::wire::{ReadError, ReplyReader, Wire, WireRequest};

/// The maximum size of the body of an error.
const MAX_ERROR_BODY: usize = 64 << 10;
/// How long the end of a body is waited for after the reply in it has ended, so that its connection can be
/// used again.
const REST: Duration = Duration::from_millis(50);

/// How long events of a reply are collected at most before they are given.
const BURST: Duration = Duration::from_millis(5);
/// How many events are collected.
const MAX_BURST: usize = 256;

/// Starts an attempt. Nothing is sent before the stream is polled; dropping it closes the connection.
pub(crate) fn stream<'a>(
    endpoint: &'a Endpoint,
    wire: &'a dyn Wire,
    request: ModelRequest<'a>,
) -> EventStream<'a> {
    let attempt = Box::new(Attempt {
        endpoint,
        wire,
        request,
        phase: Phase::Begin,
        events: VecDeque::new(),
    });
    let batches = stream::unfold(attempt, |mut attempt| async {
        let batch = attempt.next().await?;
        Some((batch, attempt))
    });
    Box::pin(Events {
        ready: VecDeque::new(),
        batches: Box::pin(batches),
    })
}

/// The events of a reply, which are read in batches.
struct Events<S> {
    ready: VecDeque<ModelEvent>,
    batches: Pin<Box<S>>,
}

impl<S: Stream<Item = Batch>> Stream for Events<S> {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            match ready!(self.batches.as_mut().poll_next(cx)) {
                Some(Ok(batch)) => self.ready = batch,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

type Batch = Result<VecDeque<ModelEvent>, ModelError>;

struct Attempt<'a> {
    endpoint: &'a Endpoint,
    wire: &'a dyn Wire,
    request: ModelRequest<'a>,
    phase: Phase,
    /// Events that were read and not yet given.
    events: VecDeque<ModelEvent>,
}

enum Phase {
    Begin,
    Reading(Box<Reading>),
    /// The reply has ended; the body may not have.
    Finished(Response),
    Failed(ModelError),
    Done,
}

struct Reading {
    response: Response,
    parser: SseParser,
    reader: Box<dyn ReplyReader>,
    /// The request, whose body no error may quote.
    request: WireRequest,
}

impl Attempt<'_> {
    /// The next events; never an empty batch.
    async fn next(&mut self) -> Option<Batch> {
        loop {
            if !self.events.is_empty() {
                return Some(Ok(std::mem::take(&mut self.events)));
            }
            self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
                Phase::Begin => match self.begin().await {
                    Ok(reading) => Phase::Reading(Box::new(reading)),
                    Err(error) => Phase::Failed(error),
                },
                Phase::Reading(reading) => self.read(reading).await,
                Phase::Finished(response) => {
                    read_rest(response).await;
                    Phase::Done
                }
                Phase::Failed(error) => return Some(Err(error)),
                Phase::Done => return None,
            };
        }
    }

    async fn begin(&mut self) -> Result<Reading, ModelError> {
        let request = self.wire.request(self.endpoint, &self.request)?;
        let reader = self.wire.reader(&self.request);
        self.send(request, reader).await
    }

    /// Sends a request, and returns its response once its head is here.
    async fn send(
        &mut self,
        request: WireRequest,
        reader: Box<dyn ReplyReader>,
    ) -> Result<Reading, ModelError> {
        let response = self.endpoint.send(&request, &self.request.config.headers)?;
        let response = response.await.map_err(|error| self.transport(error))?;
        let status = response.status();
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|kind| kind.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
        let is_page = ["text/html", "application/json"]
            .iter()
            .any(|kind| content_type.starts_with(kind));
        if status.is_success() && !is_page {
            return Ok(Reading {
                response,
                parser: SseParser::default(),
                reader,
                request,
            });
        }
        let headers = response.headers().clone();
        let body = error_body(response).await;
        if status.is_success() && !body.starts_with(b"{") {
            let provider = self.endpoint.provider;
            let detail = format!(
                "{provider} answered with {content_type:?} instead of a stream; check `base_url` and the \
                 proxies on the way"
            );
            return Err(ModelError::new(ModelErrorKind::Transport, detail));
        }
        let provider = self.endpoint.provider.to_string();
        Err(failure::of_response(
            &provider,
            status.as_u16(),
            &headers,
            &body,
            &self.confidential(&request.body),
        ))
    }

    /// Waits for the next piece of the body, and reads it with those that come right behind it.
    ///
    /// A connection hands over one piece at a time, and continues when that one is taken. Each piece by itself
    /// would wake everything that waits for the reply, and each would be a batch of its own there.
    async fn read(&mut self, mut reading: Box<Reading>) -> Phase {
        let mut piece = reading.response.chunk().await;
        let began = Instant::now();
        loop {
            let read = match piece {
                Ok(Some(bytes)) => {
                    let Reading { parser, reader, .. } = &mut *reading;
                    let events = &mut self.events;
                    parser.feed(&bytes, |event| reader.read(event, events))
                }
                Ok(None) => return self.end(reading).await,
                Err(error) => Err(self.transport(error).into()),
            };
            if let Err(error) = read {
                return self.failed(error, &reading);
            }
            if matches!(self.events.back(), Some(ModelEvent::Finished { .. })) {
                return Phase::Finished(reading.response);
            }
            if self.events.len() >= MAX_BURST || began.elapsed() >= BURST {
                return Phase::Reading(reading);
            }
            piece = match at_hand(reading.response.chunk()).await {
                Some(piece) => piece,
                None => return Phase::Reading(reading),
            };
        }
    }

    /// Ends a reply whose body has ended.
    async fn end(&mut self, mut reading: Box<Reading>) -> Phase {
        let Reading {
            parser,
            reader,
            request,
            ..
        } = &mut *reading;
        let events = &mut self.events;
        let read = parser.end(|event| reader.read(event, events));
        if read.is_ok()
            && let Some(body) = reader.rest(&request.body)
        {
            return self.go_on(*reading, body).await;
        }
        match read.and_then(|()| reader.end(events)) {
            // The loop takes a stream without its last event for a dropped connection.
            Ok(()) => Phase::Done,
            Err(error) => self.failed(error, &reading),
        }
    }

    fn failed(&self, error: ReadError, reading: &Reading) -> Phase {
        Phase::Failed(match error {
            ReadError::Model(error) => error,
            ReadError::Provider(failure) => {
                let provider = self.endpoint.provider.to_string();
                let confidential = self.confidential(&reading.request.body);
                failure::of_event(&provider, &failure, &confidential)
            }
        })
    }

    /// Asks for the rest of a reply.
    async fn go_on(&mut self, reading: Reading, body: Vec<u8>) -> Phase {
        let request = WireRequest {
            body: body.into(),
            ..reading.request
        };
        match self.send(request, reading.reader).await {
            Ok(reading) => Phase::Reading(Box::new(reading)),
            Err(error) => Phase::Failed(error),
        }
    }

    fn confidential<'b>(&'b self, body: &'b [u8]) -> Confidential<'b> {
        let key = self.endpoint.key.as_ref().map(|key| key.reveal());
        Confidential { key, body }
    }

    fn transport(&self, error: reqwest::Error) -> ModelError {
        transport_error(self.endpoint.provider.name(), &self.endpoint.client, error)
    }
}

/// Reads the body of an error, as far as it is needed.
async fn error_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() > MAX_ERROR_BODY {
            break;
        }
    }
    body
}

/// Reads what is left of a body, if it is here at once.
async fn read_rest(mut response: Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // A server that leaves its body open loses the connection.
    let _ = tokio::time::timeout(REST, rest).await;
}

/// Returns what a future gives before the other tasks that can run on this thread have had their turn; `None`
/// if it waits for longer.
async fn at_hand<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut turn = pin!(tokio::task::yield_now());
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(ready) => Poll::Ready(Some(ready)),
        Poll::Pending => turn.as_mut().poll(cx).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests;
