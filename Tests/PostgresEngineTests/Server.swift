import CPQ
import Foundation
import Synchronization
import Testing

/// A PostgreSQL server of the tests' own, in a temporary folder, on a free port of the loopback interface.
///
/// A shell stands between: it waits for the end of its input, which comes when the tests stop the server or
/// are gone, however that happened, and then ends the server and removes the folder.
final class Server: Sendable {
    /// The folder of PostgreSQL's programs, if it is installed.
    static let programs: String? = {
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []
        let folders = versions.sorted { (Int($0) ?? 0) > (Int($1) ?? 0) }.map {
            "/usr/lib/postgresql/\($0)/bin"
        }
        return (folders + ["/usr/local/bin", "/usr/bin"]).first {
            FileManager.default.isExecutableFile(atPath: $0 + "/initdb")
                && FileManager.default.isExecutableFile(atPath: $0 + "/pg_ctl")
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
    private let counter = Mutex(0)

    init(settings: [String: String] = [:]) throws {
        let programs = try #require(Server.programs)
        folder = "/tmp/tidecast-pg-\(UUID().uuidString.prefix(8))"
        port = try Server.freePort()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let user = Server.unprivileged()
        if let user { try Server.require(chown(folder, user.id, user.group) == 0, "chown \(folder)") }
        var lines = [
            "listen_addresses = '127.0.0.1'", "port = \(port)", "unix_socket_directories = '\(folder)'",
            "fsync = on", "max_connections = 60", "shared_buffers = 64MB", "log_min_messages = warning",
            "wal_level = replica", "max_wal_senders = 2",
        ]
        for (name, value) in settings.sorted(by: { $0.key < $1.key }) { lines.append("\(name) = '\(value)'") }
        let script = """
            \(user == nil ? "" : "run() { setpriv --reuid=\(user?.id ?? 0) --regid=\(user?.group ?? 0) --clear-groups -- \"$@\"; }")
            \(user == nil ? "run() { \"$@\"; }" : "")
            cd '\(folder)' || exit 1
            trap 'cd / && rm -rf "\(folder)"' EXIT
            run '\(programs)/initdb' -D data -U tidecast -A trust -E UTF8 --locale=C > initdb.log 2>&1 || { tail -n 1 initdb.log; exit 1; }
            cat >> data/postgresql.conf <<END
            \(lines.joined(separator: "\n"))
            END
            run '\(programs)/pg_ctl' -D data -l server.log -w -t 60 start > /dev/null 2>&1 || { tail -n 1 server.log; exit 1; }
            echo ready
            while read -r command; do
              case "$command" in
                restart) run '\(programs)/pg_ctl' -D data -l server.log -m fast -w -t 60 restart > /dev/null 2>&1 ;;
                crash) run '\(programs)/pg_ctl' -D data -m immediate -w -t 60 stop > /dev/null 2>&1 ;;
                start) run '\(programs)/pg_ctl' -D data -l server.log -w -t 60 start > /dev/null 2>&1 ;;
              esac
              echo done
            done
            run '\(programs)/pg_ctl' -D data -m immediate -w -t 60 stop > /dev/null 2>&1
            """
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", script]
        let toShell = Pipe()
        let fromShell = Pipe()
        process.standardInput = toShell
        process.standardOutput = fromShell
        process.standardError = FileHandle.nullDevice
        try process.run()
        input = toShell.fileHandleForWriting
        answers = fromShell.fileHandleForReading
        let answer = try read()
        try Server.require(answer == "ready", "the server did not start: \(answer)")
    }

    private let answers: FileHandle

    private func read() throws -> String {
        var line: [UInt8] = []
        while let byte = try answers.read(upToCount: 1)?.first, byte != 10 { line.append(byte) }
        return String(decoding: line, as: UTF8.self)
    }

    deinit { try? input.close() }

    private static func require(_ holds: Bool, _ what: String) throws {
        struct Failed: Error, CustomStringConvertible { var description: String }
        if !holds { throw Failed(description: what) }
    }

    /// `restart`, `crash` or `start`; returns when it is done.
    func command(_ name: String) throws {
        try input.write(contentsOf: Data("\(name)\n".utf8))
        try Server.require(try read() == "done", "\(name) failed")
    }

    /// PostgreSQL refuses to run as root.
    private static func unprivileged() -> (id: uid_t, group: gid_t)? {
        guard getuid() == 0 else { return nil }
        for name in ["postgres", "nobody"] {
            if let entry = getpwnam(name) { return (entry.pointee.pw_uid, entry.pointee.pw_gid) }
        }
        return nil
    }

    private static func freePort() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let port = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(descriptor, address, length) == 0 && getsockname(descriptor, address, &length) == 0
            }
        }
        try require(port, "no free port")
        return Int(UInt16(bigEndian: address.sin_port))
    }

    func connection(_ database: String) -> String {
        "host=127.0.0.1 port=\(port) user=tidecast dbname=\(database)"
    }

    /// A new database; the connection string for it.
    func makeDatabase(_ options: String = "") throws -> String {
        let number = counter.withLock { count in
            count += 1
            return count
        }
        let admin = try Other(connection("postgres"))
        try admin.run("CREATE DATABASE t\(number) TEMPLATE template0 \(options)")
        return connection("t\(number)")
    }
}

/// Another program's connection to the database.
final class Other {
    private let handle: OpaquePointer

    init(_ connection: String) throws {
        handle = try #require(PQconnectdb(connection))
        if PQstatus(handle) != CONNECTION_OK { throw Failed(text: String(cString: PQerrorMessage(handle))) }
    }
    deinit { PQfinish(handle) }

    struct Failed: Error { var text: String }

    /// Rows as text.
    @discardableResult
    func run(_ sql: String) throws -> [[String]] {
        let result = PQexec(handle, sql)
        defer { PQclear(result) }
        let status = PQresultStatus(result)
        guard status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK else {
            throw Failed(text: String(cString: PQerrorMessage(handle)))
        }
        return (0..<PQntuples(result)).map { row in
            (0..<PQnfields(result)).map { String(cString: PQgetvalue(result, row, $0)) }
        }
    }

    /// The single value of a query.
    func value(_ sql: String) throws -> String { try #require(try run(sql).first?.first) }
}
