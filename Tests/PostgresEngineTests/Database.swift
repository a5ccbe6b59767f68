import Foundation
import Journal
import PostgresEngine

/// A real PostgreSQL server for this test process: made with `initdb` in a temporary folder, on a socket of
/// its own, and ended with the process.
final class Database: Sendable {
    /// `nil` where no server is installed: the tests are then skipped, and say so.
    static let shared: Database? = Database()

    private let folder: String
    private let programs: String
    private let counter = Counter()

    // Its value is touched only while the lock is held.
    private final class Counter: @unchecked Sendable {
        private var value = 0
        private let lock = NSLock()
        func next() -> Int {
            lock.withLock {
                value += 1
                return value
            }
        }
    }

    private init?() {
        guard let programs = Database.find() else { return nil }
        self.programs = programs
        folder = FileManager.default.temporaryDirectory.path + "/tidecast-pg-\(getpid())"
        do {
            try? FileManager.default.removeItem(atPath: folder)
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            // PostgreSQL refuses to run as root.
            if getuid() == 0 { try Database.run("/bin/chown", ["postgres", folder]) }
            try asServer("\(programs)/initdb", ["-D", "\(folder)/data", "-A", "trust", "-E", "UTF8", "-N"])
            try start()
        } catch {
            print("no PostgreSQL server for the tests: \(error)")
            return nil
        }
        // Ended when the process is, however it ends: the watcher outlives it by half a second.
        let script =
            "while kill -0 \(getpid()) 2>/dev/null; do sleep 0.5; done; "
            + "kill -QUIT $(head -1 \(folder)/data/postmaster.pid); sleep 1; rm -rf \(folder)"
        try? Database.run("/usr/bin/setsid", ["-f", "/bin/sh", "-c", script])
    }

    private static func find() -> String? {
        let base = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: base)) ?? []
        return versions.compactMap { Int($0) }.max().map { "\(base)/\($0)/bin" }
            .flatMap { FileManager.default.fileExists(atPath: $0 + "/initdb") ? $0 : nil }
    }

    func start() throws {
        let options = "-k \(folder) -c listen_addresses= -c fsync=on -c max_connections=60"
        try asServer(
            "\(programs)/pg_ctl",
            ["-D", "\(folder)/data", "-w", "-l", "\(folder)/log", "-o", options, "start"])
    }

    func stop(_ mode: String) throws {
        try asServer("\(programs)/pg_ctl", ["-D", "\(folder)/data", "-w", "-m", mode, "stop"])
    }

    /// A new, empty database.
    func make() throws -> String {
        let name = "t\(counter.next())"
        try asServer("\(programs)/createdb", ["-h", folder, name])
        return "host=\(folder) dbname=\(name) user=\(getuid() == 0 ? "postgres" : NSUserName())"
    }

    func psql(_ conninfo: String, _ sql: String) throws {
        try asServer("\(programs)/psql", ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql, conninfo])
    }

    private func asServer(_ program: String, _ arguments: [String]) throws {
        if getuid() == 0 {
            try Database.run("/usr/sbin/runuser", ["-u", "postgres", "--", program] + arguments)
        } else {
            try Database.run(program, arguments)
        }
    }

    struct Failure: Error { var what: String }

    /// Not by `Process`: that waits for whatever the program leaves running, too.
    static func run(_ program: String, _ arguments: [String]) throws {
        let words = ([program] + arguments).map {
            "'" + $0.replacingOccurrences(of: "'", with: "'\\''") + "'"
        }
        let status = system(words.joined(separator: " ") + " </dev/null >/dev/null 2>&1")
        guard status == 0 else { throw Failure(what: "\(program) \(arguments) ended with \(status)") }
    }
}
