/// The tables, in a schema of their own. Changed by adding a version, never by changing one.
enum Schema {
    static let base = """
        CREATE SCHEMA IF NOT EXISTS tidecast;
        CREATE TABLE IF NOT EXISTS meta (key text PRIMARY KEY, value text NOT NULL)
        """

    /// Leases are updated twice a second: they have room for that on their page. Payloads are compressed
    /// already.
    static let first = """
        CREATE TABLE session (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node text NOT NULL, alive boolean NOT NULL);
        CREATE INDEX session_living ON session (node) WHERE alive;
        CREATE TABLE lease (
            session bigint PRIMARY KEY, counter bigint NOT NULL, info bytea NOT NULL) WITH (fillfactor = 30);
        CREATE TABLE partition (
            id integer PRIMARY KEY, history bigint NOT NULL, owner bigint, epoch bigint NOT NULL,
            floor bigint NOT NULL) WITH (fillfactor = 50);
        CREATE TABLE journal (
            partition integer NOT NULL, sequence bigint NOT NULL, batch bigint NOT NULL,
            payload bytea NOT NULL,
            PRIMARY KEY (partition, sequence));
        ALTER TABLE journal ALTER COLUMN payload SET STORAGE EXTERNAL;
        CREATE TABLE snapshot (
            partition integer NOT NULL, covering bigint NOT NULL, length bigint NOT NULL,
            checksum bigint NOT NULL,
            PRIMARY KEY (partition, covering));
        CREATE TABLE snapshot_part (
            partition integer NOT NULL, covering bigint NOT NULL, number integer NOT NULL,
            bytes bytea NOT NULL,
            PRIMARY KEY (partition, covering, number));
        ALTER TABLE snapshot_part ALTER COLUMN bytes SET STORAGE EXTERNAL;
        CREATE TABLE catalog (
            kind text NOT NULL, key text COLLATE "C" NOT NULL, value bytea NOT NULL, PRIMARY KEY (kind, key))
        """
}
