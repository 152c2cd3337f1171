//! Static tokens. They are looked up in the database on every request, by design: a revoked one is refused at once in
//! every process. What that costs is seen against the bare read of the same row.

use std::sync::Arc;

use access::{Authorities, Authorizer, Certificates, Gate, NewToken, Presented, Settings, TokenAuthority, TokenStore};
use anyhow::Result;
use db::Db;

use super::bearer;
use crate::measure::{Bench, Comparison, Limit, Question};
use crate::sqlite;

const SELECT: &str = "SELECT id, name, user_name, user_groups, grants, created_at, created_by, expires_at, hash \
    FROM access_tokens WHERE id = $1";
/// So that the table is not just one page.
const OTHERS: usize = 200;

const ONE: Question = Question {
    ours: "static token looked up",
    against: "bare SQLite point read",
    limit: Limit {
        at_least: 0.02,
        why: "two thread hops, a snapshot, a hash and parsed grants, against a few microseconds of work in memory",
    },
};

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let path = bench.path("access-token.db");
    let file = path.clone();
    let (db, gate, id, headers) = bench.wait_for(async move {
        let db = Db::open(db::Config::sqlite(file)).await?;
        db.migrate(access::MIGRATIONS).await?;
        let store = TokenStore::new(db.clone());
        for number in 0..OTHERS {
            let (record, text) = access::prepare(token(format!("other-{number}"))?)?;
            store.create(&record, &text).await?;
        }
        let (record, text) = access::prepare(token("bench".to_owned())?)?;
        store.create(&record, &text).await?;
        let (tokens, roles) = (TokenAuthority::Static(store), Authorizer::Roles(Vec::new()));
        let gate =
            Gate::new(tokens, roles, Authorities::default(), Settings::default(), access::metrics::Metrics::default())?;
        anyhow::Ok((db, gate, record.id, bearer(text.reveal())?))
    })?;
    let bare = sqlite::open(&path)?;
    let ours = Arc::new((gate, headers));
    let lookups = || {
        bench.together(1, &ours, |ours| async move {
            let (gate, headers) = &*ours;
            let presented = Presented { headers, certificates: &Certificates::default(), address: None };
            std::hint::black_box(gate.authenticate(presented).await?);
            Ok(())
        })
    };
    let floor = || {
        bench.alone(|| {
            let hash: Vec<u8> = bare.prepare_cached(SELECT)?.query_row([&id], |row| row.get(8))?;
            std::hint::black_box(hash);
            Ok(())
        })
    };
    let compared = vec![bench.compare(ONE, lookups, floor)?];
    bench.wait_for(db.close());
    Ok(compared)
}

fn token(name: String) -> Result<NewToken> {
    let grants = vec!["viewer@team-*".parse()?, "editor@team-a".parse()?];
    let groups = vec!["dev".to_owned()];
    Ok(NewToken { name, user: None, groups, grants, expires_at: None, created_by: "bench".to_owned() })
}
