import CPQ
import Foundation
import Synchronization
import Testing

struct Failed: Error, CustomStringConvertible { var description: String }

func demand(_ holds: Bool, _ what: String) throws {
    if !holds { throw Failed(description: what) }
}

/// A PostgreSQL server of the tests' own, in a temporary folder, on a free port of the loopback interface.
///
/// A shell runs the server and waits for the end of its input. The input ends when the tests let the server
/// go, or when their process ends, in whatever way. The shell then ends the server and removes the folder.
final class Server: Sendable {
    /// The folder of PostgreSQL's programs, if it is installed.
    static let programs: String? = {
        let base = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: base)) ?? []
        let folders = versions.sorted { (Int($0) ?? 0) > (Int($1) ?? 0) }.map { "\(base)/\($0)/bin" }
        return (folders + ["/usr/local/bin", "/usr/bin"]).first { folder in
            ["initdb", "pg_ctl", "postgres"].allSatisfy {
                FileManager.default.isExecutableFile(atPath: "\(folder)/\($0)")
            }
        }
    }()
    static var isInstalled: Bool { programs != nil }
    static let missing: Comment = "PostgreSQL is not installed"

    private static let one = Mutex<Server?>(nil)
    /// The server of all tests that do not need one to themselves.
    static func shared() throws -> Server {
        try one.withLock { server in
            if let server { return server }
            let new = try Server()
            server = new
            return new
        }
    }

    let folder: String
    let port: Int
    private let input: FileHandle
    private let answers: FileHandle
    private let databases = Mutex(0)

    /// A new server, or a standby of another that has not yet asked to be one of its synchronous ones.
    init(settings: [String: String] = [:], standbyOf primary: Server? = nil) throws {
        let programs = try #require(Server.programs)
        folder = "/tmp/tidecast-pg-\(UUID().uuidString.prefix(8))"
        port = try Server.freePort()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var run = ""
        if let user = try Server.unprivileged() {
            try demand(chown(folder, user.id, user.group) == 0, "cannot give \(folder) away")
            run = "setpriv --reuid=\(user.id) --regid=\(user.group) --clear-groups --"
        }
        var lines = [
            "listen_addresses = '127.0.0.1'", "port = \(port)", "unix_socket_directories = '\(folder)'",
            "fsync = on", "max_connections = 60", "shared_buffers = 64MB", "log_min_messages = warning",
        ]
        for (name, value) in settings.sorted(by: { $0.key < $1.key }) { lines.append("\(name) = '\(value)'") }
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", Server.script]
        var environment = ProcessInfo.processInfo.environment
        environment["FOLDER"] = folder
        environment["PROGRAMS"] = programs
        environment["RUN"] = run
        environment["SETTINGS"] = lines.joined(separator: "\n") + "\n"
        environment["PRIMARY"] = primary.map { "\($0.port)" } ?? ""
        process.environment = environment
        let toShell = Pipe()
        let fromShell = Pipe()
        process.standardInput = toShell
        process.standardOutput = fromShell
        process.standardError = FileHandle.nullDevice
        try process.run()
        input = toShell.fileHandleForWriting
        answers = fromShell.fileHandleForReading
        let answer = try read()
        try demand(answer == "done", "the server did not start: \(answer)")
    }

    deinit { try? input.close() }

    private static let script = """
        cd "$FOLDER" || exit 1
        trap 'cd /; rm -rf "$FOLDER"' EXIT
        control() { $RUN "$PROGRAMS/pg_ctl" -D data -l server.log -w -t 60 "$@" > control.log 2>&1; }
        if [ -z "$PRIMARY" ]; then
            $RUN "$PROGRAMS/initdb" -D data -U tidecast -A trust -E UTF8 --locale=C > making.log 2>&1
        else
            $RUN "$PROGRAMS/pg_basebackup" -D data -R -X stream -c fast \
                -d "host=127.0.0.1 port=$PRIMARY user=tidecast application_name=standby" > making.log 2>&1
        fi || { tail -n 1 making.log; exit 1; }
        printf '%s' "$SETTINGS" >> data/postgresql.conf
        control start || { tail -n 1 server.log; exit 1; }
        echo done
        while read -r command; do
            case "$command" in
                restart) control -m fast restart ;;
                stop) control -m immediate stop ;;
                *) control "$command" ;;
            esac && echo done || echo failed
        done
        control -m immediate stop
        """

    private func read() throws -> String {
        var line: [UInt8] = []
        while let byte = try answers.read(upToCount: 1)?.first, byte != 10 { line.append(byte) }
        return String(decoding: line, as: UTF8.self)
    }

    /// `restart`, `stop` (as if the power failed), `start`, `promote` or `reload`; returns when it is done.
    func command(_ name: String) throws {
        try input.write(contentsOf: Data("\(name)\n".utf8))
        try demand(try read() == "done", "\(name) failed")
    }

    /// PostgreSQL refuses to run as root.
    private static func unprivileged() throws -> (id: uid_t, group: gid_t)? {
        guard getuid() == 0 else { return nil }
        for name in ["postgres", "nobody"] {
            if let entry = getpwnam(name) { return (entry.pointee.pw_uid, entry.pointee.pw_gid) }
        }
        throw Failed(description: "no user to run the server as")
    }

    /// The last port that was tried. Each process begins at a place of its own, and tries each port once.
    private static let ports = Mutex(Int(getpid()) * 37)

    /// A port below those that the kernel gives out by itself: the server takes seconds to be made.
    private static func freePort() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        for _ in 0..<12_000 {
            let port = ports.withLock { next in
                next += 1
                return 20_000 + next % 12_000
            }
            address.sin_port = in_port_t(port).bigEndian
            let isBound = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    bind(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                }
            }
            if isBound { return port }
        }
        throw Failed(description: "no free port")
    }

    func connection(_ database: String) -> String {
        "host=127.0.0.1 port=\(port) user=tidecast dbname=\(database)"
    }

    /// A new database; the connection string for it.
    func makeDatabase(_ options: String = "") throws -> String {
        let number = databases.withLock { count in
            count += 1
            return count
        }
        try Other(connection("postgres")).run("CREATE DATABASE t\(number) TEMPLATE template0 \(options)")
        return connection("t\(number)")
    }
}

/// Another program's connection to the database.
final class Other {
    private let handle: OpaquePointer

    init(_ connection: String) throws {
        handle = try #require(PQconnectdb(connection))
        try demand(PQstatus(handle) == CONNECTION_OK, String(cString: PQerrorMessage(handle)))
    }
    deinit { PQfinish(handle) }

    /// Rows as text.
    @discardableResult
    func run(_ sql: String) throws -> [[String]] {
        let result = PQexec(handle, sql)
        defer { PQclear(result) }
        let status = PQresultStatus(result)
        try demand(
            status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK, String(cString: PQerrorMessage(handle)))
        return (0..<PQntuples(result)).map { row in
            (0..<PQnfields(result)).map { String(cString: PQgetvalue(result, row, $0)) }
        }
    }

    /// The single value of a query.
    func value(_ sql: String) throws -> String { try #require(try run(sql).first?.first) }

    /// Waits until some statement of the database waits for a lock. This connection must hold no
    /// transaction: a transaction sees the same activity for as long as it lasts.
    func waitForALock() throws {
        try wait("SELECT count(*) > 0 " + Other.waitingForALock, for: "t")
    }
    static let waitingForALock = """
        FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
        """

    /// Asks until the query's value is this one.
    func wait(_ sql: String, for value: String) throws {
        let end = Date(timeIntervalSinceNow: 60)
        while try self.value(sql) != value {
            try demand(Date() < end, "never \(value): \(sql)")
            usleep(2000)
        }
    }
}
