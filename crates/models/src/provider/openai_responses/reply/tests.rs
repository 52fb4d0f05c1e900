//! Streams of servers that are almost like OpenAI's.
