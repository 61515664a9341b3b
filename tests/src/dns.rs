//! A DNS server with records of tests.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use hickory_resolver::proto::{
    op::{Message, ResponseCode},
    rr::{
        RData, Record, RecordType,
        rdata::{A, TXT},
    },
};
use tokio::{net::UdpSocket, task::AbortHandle};

/// The server, which ends when this is dropped.
pub struct Dns {
    /// The address of the server.
    pub address: SocketAddr,
    records: Arc<Mutex<HashMap<(String, RecordType), RData>>>,
    answering: AbortHandle,
}

impl Dns {
    /// Starts a server without records.
    pub async fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("there is a free port");
        let address = socket.local_addr().expect("it has an address");
        let records: Arc<Mutex<HashMap<_, _>>> = Arc::default();
        let known = records.clone();
        let answering = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((size, asker)) = socket.recv_from(&mut buffer).await {
                let Ok(asked) = Message::from_vec(&buffer[..size]) else { continue };
                let answer = answer(&asked, &known.lock().unwrap_or_else(PoisonError::into_inner));
                let _ = socket.send_to(&answer.to_vec().expect("it can be encoded"), asker).await;
            }
        });
        Self { address, records, answering: answering.abort_handle() }
    }

    /// Sets a text record, in place of a former one.
    pub fn text(&self, name: &str, text: &str) {
        self.write(name, RecordType::TXT, RData::TXT(TXT::new(vec![text.to_owned()])));
    }

    /// Sets an address, in place of a former one.
    pub fn address(&self, name: &str, address: Ipv4Addr) {
        self.write(name, RecordType::A, RData::A(A(address)));
    }

    fn write(&self, name: &str, kind: RecordType, data: RData) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).insert((format!("{name}."), kind), data);
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

fn answer(asked: &Message, records: &HashMap<(String, RecordType), RData>) -> Message {
    let mut answer = Message::response(asked.metadata.id, asked.metadata.op_code);
    answer.metadata.recursion_desired = asked.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.metadata.response_code = ResponseCode::NXDomain;
    for query in &asked.queries {
        answer.add_query(query.clone());
        let name = query.name().to_ascii().to_lowercase();
        if records.keys().any(|(known, _)| *known == name) {
            answer.metadata.response_code = ResponseCode::NoError;
        }
        if let Some(data) = records.get(&(name, query.query_type())) {
            answer.add_answer(Record::from_rdata(query.name().clone(), 60, data.clone()));
        }
    }
    answer
}
