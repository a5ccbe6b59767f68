#if DEBUG
    import Journal
    import Model

    // What tests do to a database, besides using it.

    extension PostgresEngine {
        /// Ends every other connection to the database.
        public func endOthers() throws(EngineError) {
            _ = try query(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                """)
        }

        /// Holds a session's row in an open transaction while `body` runs.
        public func holdSession(_ session: SessionID, _ body: () throws -> Void) throws {
            try database.execute("BEGIN")
            _ = try query("SELECT 1 FROM session WHERE id = $1 FOR UPDATE", [.int8(session.rawValue)])
            try body()
            try database.execute("ROLLBACK")
        }
    }
#endif
