//! The warm start: rows from disk, their words worked out on several threads, then into the index one after the other.

use std::collections::VecDeque;

use db::{Db, params};

use super::Error;
use super::batch::unpack;
use super::schema;
use crate::index::{Index, Prepared, Preparer, Slot};
use crate::row::Row;

/// Pages that are worked on at the same time.
const AT_ONCE: usize = 4;

/// What a page of the file came to.
struct Page {
    rows: Vec<(Slot, Prepared)>,
    /// Rows that make no sense: they are removed, and come again from their cluster.
    bad: Vec<Slot>,
}

/// Fills an empty index; returns slots of rows that are to be removed from the file.
pub(super) async fn load(db: &Db, index: &mut Index) -> Result<Vec<Slot>, Error> {
    let mut bad = Vec::new();
    let mut pages = VecDeque::new();
    let mut after = -1;
    loop {
        let rows = db.read(move |tx| tx.query(schema::PAGE, params![after])).await?;
        let read_all = rows.is_empty();
        if let Some(last) = rows.last() {
            after = last.get(0)?;
            let preparer = index.preparer();
            pages.push_back(tokio::task::spawn_blocking(move || page(&rows, &preparer)));
        }
        while pages.len() > if read_all { 0 } else { AT_ONCE } {
            let Some(page) = pages.pop_front() else { break };
            let page = page.await.map_err(|_| Error::Closed)??;
            bad.extend(page.bad);
            for (slot, prepared) in page.rows {
                if index.find(&prepared.row().key).is_some() {
                    bad.push(slot);
                } else {
                    index.restore(&prepared, slot);
                }
            }
        }
        if read_all {
            break;
        }
    }
    index.restored();
    let tenants = db.read(|tx| tx.query(schema::TENANTS, &[])).await?;
    for tenant in tenants {
        let text = |column| tenant.get::<String>(column);
        index.set_tenant(&text(0)?, &text(1)?, Some(&text(2)?));
    }
    if !bad.is_empty() {
        tracing::warn!(rows = bad.len(), "the copy of the explorer's rows holds some that make no sense: they go");
    }
    Ok(bad)
}

fn page(rows: &[db::Row], preparer: &Preparer) -> Result<Page, Error> {
    let mut page = Page { rows: Vec::with_capacity(rows.len()), bad: Vec::new() };
    for row in rows {
        let number: i64 = row.get(0)?;
        let Ok(slot) = u32::try_from(number).map(Slot) else { continue };
        let head: Option<Row> = serde_json::from_str(&row.get::<String>(1)?).ok();
        match (head, unpack(&row.get::<Vec<u8>>(2)?)) {
            (Some(head), Ok(body)) => page.rows.push((slot, preparer.prepare(Row { body, ..head }))),
            _ => page.bad.push(slot),
        }
    }
    Ok(page)
}
