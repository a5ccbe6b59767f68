import Glibc

/// Starts a server and measures the time from exec until the server is ready (`GET /readyz` answers 200).
public struct RestartLoad: Sendable {
    /// The program and its arguments.
    public var command: [String]
    public var address: ServerAddress
    public var times = 3
    public var isCrash = false
    public var secondsMax = 120.0

    public init(command: [String], address: ServerAddress) {
        self.command = command
        self.address = address
    }

    public func run() throws -> LoadReport {
        var report = LoadReport("restart", unit: "restart")
        var ready = Histogram()
        var resident = 0
        for _ in 0..<times {
            let began = MonotonicClock.now()
            let pid = try RestartLoad.spawn(command)
            defer {
                kill(pid, isCrash ? SIGKILL : SIGTERM)
                waitpid(pid, nil, 0)
            }
            while !isReady() {
                guard Double(MonotonicClock.now() - began) / 1e9 < secondsMax, waitpid(pid, nil, WNOHANG) == 0
                else { throw LoadError("the server did not become ready") }
                usleep(1000)
            }
            let took = MonotonicClock.now() - began
            ready.record(took)
            report.seconds += Double(took) / 1e9
            let process = ServerProcess(pids: [pid])
            report.cpuSeconds = (report.cpuSeconds ?? 0) + (process.cpuSeconds() ?? 0)
            resident = max(resident, process.residentBytes() ?? 0)
        }
        report.operations = times
        report.latencies = [("exec to ready", ready)]
        report.facts = [("resident when ready, MiB", Double(resident) / 1_048_576)]
        return report
    }

    private func isReady() -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var patience = timeval(tv_sec: 1, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var destination = sockaddr_in()
        destination.sin_family = sa_family_t(AF_INET)
        destination.sin_port = UInt16(address.port).bigEndian
        guard inet_pton(AF_INET, address.host, &destination.sin_addr) == 1 else { return false }
        let result = withUnsafePointer(to: &destination) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { return false }
        let text = "GET /readyz HTTP/1.1\r\nhost: \(address.authority)\r\nconnection: close\r\n\r\n"
        guard send(descriptor, text, text.utf8.count, Int32(MSG_NOSIGNAL)) == text.utf8.count else {
            return false
        }
        var answer = [UInt8](repeating: 0, count: 64)
        let count = recv(descriptor, &answer, answer.count, 0)
        return count > 0 && String(decoding: answer[..<count], as: UTF8.self).hasPrefix("HTTP/1.1 200")
    }

    private static func spawn(_ command: [String]) throws -> pid_t {
        var arguments = command.map { strdup($0) }
        arguments.append(nil)
        defer { for argument in arguments { free(argument) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        var pid: pid_t = 0
        let result = posix_spawnp(&pid, command[0], &actions, nil, arguments, environ)
        guard result == 0 else { throw LoadError("\(command[0]): \(String(cString: strerror(result)))") }
        return pid
    }
}
