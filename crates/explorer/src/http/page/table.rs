//! Rows as a table.

use jiff::Timestamp;

use super::super::answers::ObjectAnswer;
use super::html::{escape, link};

/// The address of an object's own page.
pub(super) fn object(id: &str) -> String {
    link("/explore/object", &[("id", id)])
}

/// One row; with a box by which it is selected.
pub(super) fn selectable(row: &ObjectAnswer, now: Timestamp) -> String {
    let cells = [
        format!(
            "<input type=\"checkbox\" name=\"id\" value=\"{0}\" aria-label=\"Select {1}\">",
            escape(&row.id),
            escape(&row.name)
        ),
        name(row),
        escape(&row.kind),
        escape(&row.namespace),
        escape(&row.cluster),
        escape(&row.tenant),
        status(row, now),
        format!("<span class=\"message\" title=\"{0}\">{0}</span>", escape(&row.message)),
        row.created_at.as_deref().map(|time| age(time, now)).unwrap_or_default(),
    ];
    format!("<tr><td>{}</td></tr>", cells.join("</td><td>"))
}

/// A short list of rows, such as what an object is related to.
pub(super) fn list(rows: &[ObjectAnswer], now: Timestamp) -> String {
    let line = |row: &ObjectAnswer| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            name(row),
            escape(&row.kind),
            escape(&row.namespace),
            status(row, now),
            escape(&row.message)
        )
    };
    let lines: String = rows.iter().map(line).collect();
    format!(
        "<table><thead><tr><th>Name</th><th>Kind</th><th>Namespace</th><th>Status</th><th>Message</th></tr></thead>\
         <tbody>{lines}</tbody></table>"
    )
}

fn name(row: &ObjectAnswer) -> String {
    format!("<a class=\"row\" href=\"{}\">{}</a>", object(&row.id), escape(&row.name))
}

/// The status, and what must be known beside it: gone, or not heard of for a while.
pub(super) fn status(row: &ObjectAnswer, now: Timestamp) -> String {
    let mut text = format!("<span class=\"status s-{0}\">{0}</span>", escape(&row.status));
    if let Some(time) = &row.deleted_at {
        text.push_str(&format!(" <span class=\"mark\">deleted {} ago</span>", age(time, now)));
    }
    if let Some(time) = &row.stale_since {
        text.push_str(&format!(" <span class=\"mark\">stale for {}</span>", age(time, now)));
    }
    text
}

/// How long ago a time was, in its two largest units at most.
pub(super) fn age(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return String::new() };
    let seconds = now.as_second().saturating_sub(time.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h{}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{}h", seconds / 86400, seconds % 86400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now: Timestamp = "2026-01-10T12:00:00Z".parse().unwrap();
        for (time, expected) in [
            ("2026-01-10T11:59:30Z", "30s"),
            ("2026-01-10T11:30:30Z", "29m"),
            ("2026-01-10T09:30:00Z", "2h30m"),
            ("2026-01-07T09:00:00Z", "3d3h"),
            ("2026-01-11T00:00:00Z", "0s"),
            ("nonsense", ""),
        ] {
            assert_eq!(age(time, now), expected, "{time}");
        }
    }
}
