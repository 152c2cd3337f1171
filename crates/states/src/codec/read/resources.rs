//! The resources of a state: where they are and who they belong to, no attribute but the id.

use super::index::Index;
use super::walk::walk;
use super::{Source, Unreadable};

/// One instance of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// As Terraform prints it: `module.a.data.aws_ami.base["x"]`.
    pub address: String,
    /// The type, `aws_instance`.
    pub kind: String,
    /// The source of the provider, `registry.terraform.io/hashicorp/aws`.
    pub provider: String,
    pub id: Option<String>,
}

/// Hands each instance to `found`, in the order of the state.
pub fn resources(source: &mut Source<'_>, found: &mut dyn FnMut(Resource)) -> Result<(), Unreadable> {
    let mut index = Index::new(|instance| {
        let super::index::Instance { address, kind, provider, id, .. } = instance;
        found(Resource { address, kind, provider, id });
    });
    walk(source, &mut index)
}
