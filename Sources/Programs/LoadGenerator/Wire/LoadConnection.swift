import Glibc
import Synchronization

/// The address of a server: IPv4 only, because a load runs on loopback or inside one network.
public struct ServerAddress: Sendable {
    public var host: String
    public var port: Int

    /// From `http://HOST:PORT` or `HOST:PORT`.
    public init(_ text: String) throws {
        var rest = Substring(text)
        if rest.hasPrefix("http://") { rest = rest.dropFirst(7) }
        if let slash = rest.firstIndex(of: "/") { rest = rest[..<slash] }
        let parts = rest.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let port = Int(parts[1]), (1...65535).contains(port) else {
            throw LoadError("\(text) is not http://HOST:PORT")
        }
        host = parts[0] == "localhost" ? "127.0.0.1" : String(parts[0])
        self.port = port
    }

    var authority: String { "\(host):\(port)" }
    var isLoopback: Bool { host.hasPrefix("127.") }
}

/// A TCP connection of a poller. A subclass speaks the protocol.
class LoadConnection {
    let poller: Poller
    private(set) var descriptor: Int32
    fileprivate(set) var isOpen = true
    var index = -1
    var isTouched = false
    /// Bytes to write, from `written` on.
    var output: [UInt8] = []
    private var written = 0
    private var isWatchingWrites = false
    private(set) var bytesRead = 0

    init(_ poller: Poller, to address: ServerAddress) throws {
        self.poller = poller
        descriptor = try SourceAddresses.connect(address)
        poller.add(self)
    }

    deinit { if descriptor >= 0 { Glibc.close(descriptor) } }

    /// Called with bytes that have come.
    func receive(_ bytes: UnsafeRawBufferPointer) {}
    /// Called before a write; appends the protocol's bytes to `output`.
    func produce() {}
    /// Called when the server or an error has ended the connection.
    func lost() {}

    final func touch() { poller.touch(self) }

    final func read(into buffer: UnsafeMutableRawBufferPointer) {
        while isOpen {
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count > 0 {
                bytesRead += count
                receive(UnsafeRawBufferPointer(start: buffer.baseAddress, count: count))
                touch()
                if count < buffer.count { return }
            } else if count < 0, errno == EAGAIN || errno == EINTR {
                return
            } else {
                return fail()
            }
        }
    }

    final func write() {
        guard isOpen else { return }
        produce()
        while written < output.count {
            let count = output.withUnsafeBytes { bytes in
                bytes.baseAddress.map {
                    send(descriptor, $0 + written, bytes.count - written, Int32(MSG_NOSIGNAL))
                }
                    ?? 0
            }
            if count > 0 {
                written += count
            } else if errno == EINTR {
                continue
            } else if errno == EAGAIN {
                break
            } else {
                return fail()
            }
        }
        let isBlocked = written < output.count
        if !isBlocked {
            output.removeAll(keepingCapacity: output.capacity <= 64 << 10)
            written = 0
        }
        if isBlocked != isWatchingWrites {
            isWatchingWrites = isBlocked
            poller.watchWrites(self, isBlocked)
        }
    }

    /// Bytes that the kernel has not yet taken.
    final var pendingBytes: Int { output.count - written }

    final func fail() {
        guard isOpen else { return }
        hangUp()
        lost()
    }

    /// Closes the connection without a call of `lost`.
    final func hangUp() {
        guard isOpen else { return }
        isOpen = false
        poller.remove(self)
        Glibc.close(descriptor)
        descriptor = -1
    }
}

/// Loopback connections leave from many addresses of 127.0.0.0/8, so that connections of earlier runs in
/// TIME_WAIT do not use up a run's ports.
private enum SourceAddresses {
    private static let connectionsEach = 4096
    private static let made = Atomic<Int>(0)
    private static let base = UInt32(getpid()) & 0xFFFF

    static func connect(_ address: ServerAddress) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw LoadError("socket: \(String(cString: strerror(errno)))") }
        var one: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, size)
        if address.isLoopback {
            setsockopt(descriptor, Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, &one, size)
            let host = (base &+ UInt32(made.load(ordering: .relaxed) / connectionsEach)) & 0xFFFF
            var source = sockaddr_in()
            source.sin_family = sa_family_t(AF_INET)
            source.sin_addr.s_addr = (0x7F01_0000 | host).bigEndian
            _ = with(&source) { bind(descriptor, $0, $1) }
        }
        made.add(1, ordering: .relaxed)
        var destination = sockaddr_in()
        destination.sin_family = sa_family_t(AF_INET)
        destination.sin_port = UInt16(address.port).bigEndian
        guard inet_pton(AF_INET, address.host, &destination.sin_addr) == 1 else {
            close(descriptor)
            throw LoadError("\(address.host) is not an IPv4 address")
        }
        let result = with(&destination) { Glibc.connect(descriptor, $0, $1) }
        guard result == 0 else {
            let reason = String(cString: strerror(errno))
            close(descriptor)
            throw LoadError("no connection to \(address.authority): \(reason)")
        }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        return descriptor
    }

    private static func with(
        _ address: inout sockaddr_in, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}

/// Raises the soft limit of open files to the hard one.
public func raiseOpenFiles() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
}
