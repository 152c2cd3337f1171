//! Query parameters. As with bodies, errors name the parameter and what it must be, never what was sent.

use axum::extract::Query;
use http::Uri;

use super::Problem;

/// The parameters of a query, taken one by one. An empty one counts as left out.
#[derive(Debug)]
pub struct Parameters {
    known: Vec<&'static str>,
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// Reads the query of a request that takes these parameters, each at most once.
    pub fn read(uri: &Uri, known: &[&'static str]) -> Result<Parameters, Problem> {
        let hint = || match known {
            [] => "leave the query out".to_owned(),
            known => format!("the parameters are {}", known.join(", ")),
        };
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Query(pairs) = pairs.map_err(|_| Problem::bad_request("the query is not understood", hint()))?;
        for (number, (name, _)) in pairs.iter().enumerate() {
            let Some(known) = known.iter().find(|known| *known == name) else {
                return Err(Problem::bad_request("the query has a parameter that is not known here", hint()));
            };
            if pairs[..number].iter().any(|(earlier, _)| earlier == name) {
                let message = format!("the parameter '{known}' is given twice");
                return Err(Problem::bad_request(message, "give it once"));
            }
        }
        Ok(Parameters { known: known.to_vec(), pairs })
    }

    pub fn text(&mut self, name: &'static str) -> Option<String> {
        debug_assert!(self.known.contains(&name));
        let at = self.pairs.iter().position(|(known, _)| known == name)?;
        Some(self.pairs.swap_remove(at).1).filter(|text| !text.is_empty())
    }

    pub fn whole_number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        let digits = |text: &String| text.bytes().all(|byte| byte.is_ascii_digit());
        self.convert(name, "a whole number that is not negative", |text| text.parse().ok().filter(|_| digits(&text)))
    }

    /// `true` or `false`; left out it is `false`.
    pub fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        let flag = self.convert(name, "true or false", |text| text.parse().ok())?;
        Ok(flag.unwrap_or_default())
    }

    fn convert<T>(
        &mut self,
        name: &'static str,
        what: &str,
        convert: impl FnOnce(String) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        convert(text).map(Some).ok_or_else(|| {
            Problem::bad_request(format!("the parameter '{name}' is not {what}"), format!("make it {what}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["limit", "deleted", "search"];

    fn read(query: &str) -> Result<(Option<u64>, bool, Option<String>), String> {
        let uri: Uri = format!("/x?{query}").parse().unwrap();
        let mut parameters = Parameters::read(&uri, KNOWN).map_err(|problem| problem.message)?;
        let limit = parameters.whole_number("limit").map_err(|problem| problem.message)?;
        let deleted = parameters.flag("deleted").map_err(|problem| problem.message)?;
        Ok((limit, deleted, parameters.text("search")))
    }

    #[test]
    fn parameters_are_read_once_and_faults_name_them() {
        assert_eq!(read(""), Ok((None, false, None)));
        assert_eq!(read("limit=10&deleted=true&search=a%20b"), Ok((Some(10), true, Some("a b".to_owned()))));
        assert_eq!(read("limit=&deleted=&search="), Ok((None, false, None)));
        for (query, fault) in [
            ("limit=x", "'limit'"),
            ("limit=-1", "'limit'"),
            ("limit=%2B1", "'limit'"),
            ("limit=1.0", "'limit'"),
            ("limit=99999999999999999999", "'limit'"),
            ("deleted=yes", "'deleted'"),
            ("limit=1&limit=2", "'limit' is given twice"),
            ("canary=1", "not known"),
        ] {
            let said = read(query).unwrap_err();
            assert!(said.contains(fault) && !said.contains("canary"), "{query}: {said}");
        }
    }
}
