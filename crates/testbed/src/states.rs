//! Terraform states as large as one likes: resources like `aws_instance`, each with ids of its own, about 2.7 kB,
//! laid out as Terraform writes them.
//!
//! The doors are [`generate`] and, for what does not fit into memory, [`stream`]. The same arguments give the same
//! bytes; an edit changes the resource it names and nothing else.

use std::collections::BTreeMap;
use std::io::{self, Read};

use fastrand::Rng;

/// What differs between versions of one state.
#[derive(Clone, Debug)]
pub struct Options {
    pub serial: u64,
    /// Resource number -> revision: one tag and one attribute of that resource depend on it.
    pub edits: BTreeMap<usize, u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { serial: 1, edits: BTreeMap::new() }
    }
}

/// The bytes of one resource, roughly: how many resources make a state of a given size.
pub const RESOURCE_BYTES: usize = 2700;

/// A state with `resources` resources.
pub fn generate(resources: usize, seed: u64, options: &Options) -> Vec<u8> {
    let mut state = Vec::with_capacity((resources + 1) * RESOURCE_BYTES);
    stream(resources, seed, options).read_to_end(&mut state).expect("memory does not fail");
    state
}

/// The same bytes, one resource at a time.
pub fn stream(resources: usize, seed: u64, options: &Options) -> impl Read + use<> {
    Stream { resources, seed, options: options.clone(), next: 0, ready: Vec::new(), taken: 0 }
}

struct Stream {
    resources: usize,
    seed: u64,
    options: Options,
    /// 0 is what stands before the resources, 1 the first resource, `resources + 1` what stands after them.
    next: usize,
    ready: Vec<u8>,
    taken: usize,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.ready.len() && self.next <= self.resources + 1 {
            self.ready = match self.next {
                0 => head(self.seed, self.options.serial),
                number if number <= self.resources => self.resource(number - 1),
                _ => b"\n  ],\n  \"check_results\": null\n}\n".to_vec(),
            };
            self.taken = 0;
            self.next += 1;
        }
        let length = buffer.len().min(self.ready.len() - self.taken);
        buffer[..length].copy_from_slice(&self.ready[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}

impl Stream {
    fn resource(&self, number: usize) -> Vec<u8> {
        let revision = self.options.edits.get(&number).copied().unwrap_or(0);
        let comma = if number == 0 { "\n" } else { ",\n" };
        format!("{comma}{}", instance(number, self.seed, revision)).into_bytes()
    }
}

fn head(seed: u64, serial: u64) -> Vec<u8> {
    let mut random = Rng::with_seed(seed);
    let lineage = format!("{}-{}-{}", hex(&mut random, 8), hex(&mut random, 4), hex(&mut random, 12));
    format!(
        r#"{{
  "version": 4,
  "terraform_version": "1.12.1",
  "serial": {serial},
  "lineage": "{lineage}",
  "outputs": {{
    "endpoint": {{
      "value": "https://{}.example.com/?a=1\u0026b=\u003c2\u003e",
      "type": "string"
    }},
    "password": {{
      "value": "{}",
      "type": "string",
      "sensitive": true
    }}
  }},
  "resources": ["#,
        hex(&mut random, 8),
        hex(&mut random, 24),
    )
    .into_bytes()
}

fn hex(random: &mut Rng, digits: usize) -> String {
    (0..digits).map(|_| char::from(b"0123456789abcdef"[random.usize(..16)])).collect()
}

fn instance(number: usize, seed: u64, revision: u64) -> String {
    let mut random = Rng::with_seed(seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let random = &mut random;
    let (id, ami, interface, subnet) = (hex(random, 17), hex(random, 17), hex(random, 17), hex(random, 17));
    let (group, volume, other_volume) = (hex(random, 17), hex(random, 17), hex(random, 17));
    let (a, b, c) = (random.u8(..), random.u8(..), random.u8(1..255));
    let (account, created) = (random.u64(100_000_000_000..999_999_999_999), random.u32(1_000_000_000..1_700_000_000));
    let kind = random.choice(["t3.micro", "t3.small", "m6i.large", "c7g.xlarge"]).unwrap_or("t3.nano");
    let private = hex(random, 64);
    format!(
        r#"    {{
      "mode": "managed",
      "type": "aws_instance",
      "name": "node_{number}",
      "provider": "provider[\"registry.terraform.io/hashicorp/aws\"]",
      "instances": [
        {{
          "schema_version": 1,
          "attributes": {{
            "ami": "ami-{ami}",
            "arn": "arn:aws:ec2:eu-west-1:{account}:instance/i-{id}",
            "associate_public_ip_address": true,
            "availability_zone": "eu-west-1a",
            "cpu_core_count": {},
            "credit_specification": [
              {{
                "cpu_credits": "standard"
              }}
            ],
            "disable_api_termination": false,
            "ebs_block_device": [
              {{
                "delete_on_termination": true,
                "device_name": "/dev/sdf",
                "encrypted": true,
                "iops": 3000,
                "kms_key_id": "arn:aws:kms:eu-west-1:{account}:key/{}",
                "tags": {{}},
                "throughput": 125,
                "volume_id": "vol-{other_volume}",
                "volume_size": {},
                "volume_type": "gp3"
              }}
            ],
            "ebs_optimized": false,
            "host_id": null,
            "iam_instance_profile": "profile-{}",
            "id": "i-{id}",
            "instance_state": "running",
            "instance_type": "{kind}",
            "ipv6_addresses": [],
            "key_name": "deployer",
            "metadata_options": [
              {{
                "http_endpoint": "enabled",
                "http_put_response_hop_limit": 2,
                "http_tokens": "required"
              }}
            ],
            "monitoring": false,
            "primary_network_interface_id": "eni-{interface}",
            "private_dns": "ip-10-{a}-{b}-{c}.eu-west-1.compute.internal",
            "private_ip": "10.{a}.{b}.{c}",
            "public_dns": "ec2-54-{b}-{a}-{c}.eu-west-1.compute.amazonaws.com",
            "root_block_device": [
              {{
                "device_name": "/dev/xvda",
                "volume_id": "vol-{volume}",
                "volume_size": 8
              }}
            ],
            "subnet_id": "subnet-{subnet}",
            "tags": {{
              "CreatedAt": "{created}",
              "Name": "node-{number}",
              "Revision": "r{revision}"
            }},
            "user_data_hash": {},
            "vpc_security_group_ids": [
              "sg-{group}"
            ]
          }},
          "sensitive_attributes": [],
          "private": "{private}",
          "dependencies": [
            "aws_security_group.nodes",
            "aws_subnet.private"
          ]
        }}
      ]
    }}"#,
        random.u8(1..64),
        hex(random, 32),
        random.u16(8..2000),
        hex(random, 12),
        created.wrapping_add(u32::try_from(revision % 1000).unwrap_or(0)),
    )
}
