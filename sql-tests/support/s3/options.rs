//! The options of a server: its buckets, its users, and how it answers where services differ.

/// The most keys that S3 lists at once.
const MOST_KEYS: usize = 1000;

/// The least size of a part that isn't the last one of its upload.
const LEAST_PART: usize = 5 << 20;

/// What a user may do with the objects of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum S3Action {
    /// Reading objects and their properties.
    Read,
    /// Listing objects, and asking for the bucket itself.
    List,
    /// Writing objects, in one request or in parts.
    Write,
    /// Deleting objects.
    Delete,
}

impl S3Action {
    /// All actions.
    pub const ALL: [Self; 4] = [Self::Read, Self::List, Self::Write, Self::Delete];
}

/// The permission to do something in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Grant {
    /// The permitted action.
    pub action: S3Action,
    /// The name of the bucket.
    pub bucket: String,
}

/// Somebody who signs requests.
#[derive(Debug, Clone)]
pub struct S3User {
    /// The public half of the key.
    pub access_key: String,
    /// The secret half of the key.
    pub secret_key: String,
    /// The token that requests must carry. Requests of users without one must not carry any.
    pub session_token: Option<String>,
    /// What the user may do.
    pub grants: Vec<S3Grant>,
}

impl S3User {
    /// A user with a key, and without any grants.
    pub fn new(access_key: &str, secret_key: &str) -> Self {
        Self {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            session_token: None,
            grants: Vec::new(),
        }
    }

    /// The user with a session token.
    pub fn with_session_token(mut self, token: &str) -> Self {
        self.session_token = Some(token.to_owned());
        self
    }

    /// The user with permission for these actions in a bucket.
    pub fn with_grants(mut self, actions: &[S3Action], bucket: &str) -> Self {
        self.grants.extend(actions.iter().map(|&action| S3Grant {
            action,
            bucket: bucket.to_owned(),
        }));
        self
    }
}

/// A bucket.
#[derive(Debug, Clone)]
pub struct S3Bucket {
    /// The name, of at least three letters.
    pub name: String,
    /// Whether everybody may read and list objects, with and without a signature.
    pub public: bool,
    /// The region that signed requests must name. A bucket without a region accepts all of them.
    pub region: Option<String>,
}

impl S3Bucket {
    /// A private bucket without a region.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            public: false,
            region: None,
        }
    }

    /// The bucket as a public one.
    pub fn public(mut self) -> Self {
        self.public = true;
        self
    }

    /// The bucket in a region.
    pub fn in_region(mut self, region: &str) -> Self {
        self.region = Some(region.to_owned());
        self
    }
}

/// The answer to a request that is signed for another region than the bucket's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WrongRegionAnswer {
    /// 400 `AuthorizationHeaderMalformed`, as from the endpoint of the bucket's region.
    #[default]
    Malformed,
    /// 301 `PermanentRedirect`, as from the endpoint of another region.
    Redirect,
}

/// The options of a server. A server with default options has neither buckets nor users.
#[derive(Debug, Clone)]
pub struct S3ServerOptions {
    /// The buckets.
    pub buckets: Vec<S3Bucket>,
    /// The users.
    pub users: Vec<S3User>,
    /// Whether requests without a signature may do everything.
    pub allow_anonymous: bool,
    /// The answer to requests for the wrong region.
    pub wrong_region: WrongRegionAnswer,
    /// The most entries of a page of a listing, at most 1,000.
    pub page_size: usize,
    /// The least size of all parts of an upload but the last one.
    pub least_part_size: usize,
}

impl Default for S3ServerOptions {
    fn default() -> Self {
        Self {
            buckets: Vec::new(),
            users: Vec::new(),
            allow_anonymous: false,
            wrong_region: WrongRegionAnswer::default(),
            page_size: MOST_KEYS,
            least_part_size: LEAST_PART,
        }
    }
}

impl S3ServerOptions {
    /// The options with another bucket.
    pub fn with_bucket(mut self, bucket: S3Bucket) -> Self {
        self.buckets.push(bucket);
        self
    }

    /// The options with another user.
    pub fn with_user(mut self, user: S3User) -> Self {
        self.users.push(user);
        self
    }

    /// The bucket with a name.
    pub(super) fn bucket(&self, name: &str) -> Option<&S3Bucket> {
        self.buckets.iter().find(|bucket| bucket.name == name)
    }

    /// The user with an access key.
    pub(super) fn user(&self, access_key: &str) -> Option<&S3User> {
        self.users.iter().find(|user| user.access_key == access_key)
    }

    /// Whether the owner of an access key, or nobody in particular, may do something in a bucket.
    pub(super) fn allows(
        &self,
        access_key: Option<&str>,
        action: S3Action,
        bucket: &S3Bucket,
    ) -> bool {
        if bucket.public && matches!(action, S3Action::Read | S3Action::List) {
            return true;
        }
        match access_key {
            None => self.allow_anonymous,
            Some(access_key) => self.user(access_key).is_some_and(|user| {
                let permits =
                    |grant: &S3Grant| grant.action == action && grant.bucket == bucket.name;
                user.grants.iter().any(permits)
            }),
        }
    }

    /// The most entries of a page if the client asks for a number of them.
    pub(super) fn page_length(&self, asked: Option<i32>) -> usize {
        let asked = asked.map_or(MOST_KEYS, |asked| usize::try_from(asked).unwrap_or(0));
        asked.min(self.page_size).min(MOST_KEYS)
    }
}
