//! Who asks, and for what.

use super::MASTERS;

/// Somebody, as the cluster of the policy knows them. Groups are as given: whoever asks adds `system:authenticated` and,
/// for ServiceAccounts, their groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    pub user: String,
    pub groups: Vec<String>,
}

impl Who {
    pub(super) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// One request for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub verb: &'a str,
    /// Empty for the core group.
    pub group: &'a str,
    /// The plural, lower-case.
    pub resource: &'a str,
    pub subresource: Option<&'a str>,
    /// Empty for objects of the cluster, and for all namespaces.
    pub namespace: &'a str,
    /// Empty for collections; a list that selects one `metadata.name` has it.
    pub name: &'a str,
}

impl<'a> Request<'a> {
    /// The namespace whose RoleBindings count, or empty if none do.
    ///
    /// The path of a namespace, `/api/v1/namespaces/NAME`, puts the request into that namespace, although namespaces
    /// are objects of the cluster. A collection that selects one name has it elsewhere than in its path.
    pub(super) fn place(&self) -> &'a str {
        let one_namespace = is_namespaces(self.resource) && self.namespace.is_empty() && names_in_path(self.verb);
        if one_namespace { self.name } else { self.namespace }
    }

    pub(super) fn subresource(&self) -> &'a str {
        self.subresource.unwrap_or_default()
    }
}

/// Of whatever group: the API server looks at the path alone.
pub(super) fn is_namespaces(resource: &str) -> bool {
    resource == "namespaces"
}

/// Whether a request with this verb names its object in its path.
pub(super) fn names_in_path(verb: &str) -> bool {
    !matches!(verb, "list" | "watch" | "deletecollection")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_decided_where_its_path_puts_it() {
        // verb, resource, subresource, namespace, name, where RoleBindings count
        let cases = [
            ("get", "pods", None, "a", "x", "a"),
            ("list", "pods", None, "a", "", "a"),
            ("list", "pods", None, "", "", ""),
            ("get", "nodes", None, "", "x", ""),
            ("get", "namespaces", None, "", "x", "x"),
            ("delete", "namespaces", None, "", "x", "x"),
            ("update", "namespaces", Some("status"), "", "x", "x"),
            ("get", "namespaces", None, "a", "x", "a"),
            ("list", "namespaces", None, "", "x", ""),
            ("watch", "namespaces", None, "", "x", ""),
            ("list", "namespaces", None, "", "", ""),
            ("create", "namespaces", None, "", "", ""),
            ("deletecollection", "namespaces", None, "", "", ""),
        ];
        for (verb, resource, subresource, namespace, name, place) in cases {
            let request = Request { verb, group: "", resource, subresource, namespace, name };
            assert_eq!(request.place(), place, "{request:?}");
        }
    }
}
