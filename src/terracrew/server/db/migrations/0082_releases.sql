-- Published versions of Terracrew, which the whole server knows (ADR 0079). `base_version` is the version without build metadata, so
-- that two releases are never equal in the order of versions. A row exists only once all files of the release are stored.
CREATE TABLE releases (
    id text PRIMARY KEY,
    version text NOT NULL,
    base_version text NOT NULL,
    notes text NOT NULL,
    released_at double precision NOT NULL,
    commit_id text NOT NULL,
    link text NOT NULL,
    is_breaking boolean NOT NULL,
    breaking_words text NOT NULL,
    min_server_version text NOT NULL,
    published_by text NOT NULL,
    published_by_name text NOT NULL,
    published_at double precision NOT NULL,
    withdrawn_at double precision,
    withdrawn_by text NOT NULL,
    withdrawn_by_name text NOT NULL,
    withdrawn_reason text NOT NULL,
    CONSTRAINT releases_base_version UNIQUE (base_version),
    CONSTRAINT releases_breaking CHECK (is_breaking OR breaking_words = ''),
    CONSTRAINT releases_withdrawn CHECK ((withdrawn_at IS NULL) = (withdrawn_reason = ''))
);

-- The files of a release (with the object that has the content), and its images (with a reference and no content).
CREATE TABLE release_artifacts (
    release_id text NOT NULL REFERENCES releases (id) ON DELETE CASCADE,
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('wheel', 'sdist', 'image', 'sbom', 'checksums')),
    size_bytes bigint NOT NULL,
    sha256 text NOT NULL,
    signature text NOT NULL,
    reference text NOT NULL,
    object_name text NOT NULL,
    PRIMARY KEY (release_id, name),
    CONSTRAINT release_artifacts_content CHECK ((kind = 'image') = (object_name = '') AND (kind = 'image') = (reference <> ''))
);
CREATE INDEX release_artifacts_object ON release_artifacts (object_name);

-- Tokens with which releases can be published, and nothing else can be done.
CREATE TABLE release_tokens (
    id text PRIMARY KEY,
    name text NOT NULL,
    token_sha256 text NOT NULL,
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    last_used_at double precision,
    CONSTRAINT release_tokens_name UNIQUE (name),
    CONSTRAINT release_tokens_token UNIQUE (token_sha256)
);
