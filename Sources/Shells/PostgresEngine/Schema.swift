/// The tables, as steps from one version of the schema to the next. All are in the database's schema
/// `tidecast`. A released step never changes; a change is a new step at the end.
///
/// - Payloads are compressed already if that gains, so the database stores them as they are.
/// - `session` and `lease` are apart, so that renewing a lease never waits for an append, which holds a
///   shared lock on its session's row. A lock makes no new version of that row (measured: a row that each
///   append updates is 2.5 times slower, and one idle transaction elsewhere ruins it).
/// - Of each node at most one session lives; the index holds even for two processes that begin concurrently.
enum Schema {
    static let steps: [String] = [
        """
        CREATE SCHEMA tidecast;
        CREATE TABLE tidecast.schema (
            single boolean PRIMARY KEY DEFAULT true CHECK (single), version int4 NOT NULL);
        INSERT INTO tidecast.schema (version) VALUES (0);

        CREATE TABLE tidecast.session (
            id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node text COLLATE "C" NOT NULL,
            alive boolean NOT NULL);
        CREATE UNIQUE INDEX session_alive ON tidecast.session (node) WHERE alive;
        CREATE INDEX session_node ON tidecast.session (node);
        CREATE TABLE tidecast.lease (
            session int8 PRIMARY KEY, counter int8 NOT NULL, info bytea NOT NULL)
            WITH (fillfactor = 25);

        CREATE TABLE tidecast.partition (
            id int4 PRIMARY KEY, history int8 NOT NULL, owner int8, epoch int8 NOT NULL,
            floor int8 NOT NULL) WITH (fillfactor = 50);
        CREATE TABLE tidecast.journal (
            partition int4 NOT NULL, sequence int8 NOT NULL, batch int8 NOT NULL, payload bytea NOT NULL,
            PRIMARY KEY (partition, sequence));
        ALTER TABLE tidecast.journal ALTER COLUMN payload SET STORAGE EXTERNAL;

        CREATE SEQUENCE tidecast.upload;
        CREATE TABLE tidecast.snapshot (
            partition int4 NOT NULL, covering int8 NOT NULL, upload int8 NOT NULL, chunks int4 NOT NULL,
            length int8 NOT NULL, checksum int8 NOT NULL, PRIMARY KEY (partition, covering));
        CREATE TABLE tidecast.chunk (
            partition int4 NOT NULL, upload int8 NOT NULL, number int4 NOT NULL, bytes bytea NOT NULL,
            PRIMARY KEY (partition, upload, number));
        ALTER TABLE tidecast.chunk ALTER COLUMN bytes SET STORAGE EXTERNAL;

        CREATE TABLE tidecast.project (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
        CREATE TABLE tidecast.credential (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
        CREATE TABLE tidecast.key (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
        CREATE TABLE tidecast.setting (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
        """
    ]

    static var version: Int { steps.count }
    /// The advisory lock under which the schema is created and changed: "TDCT" and 1.
    static let lock: Int64 = 0x5444_4354_0000_0001
    /// How long a process waits while another changes the schema.
    static let lockSeconds = 60
}
