/// The part of a connection that its loop calls.
protocol EdgeConnection: AnyObject {
    /// Finishes the requests that are under way, and begins nothing new.
    func drain()
    /// Closes the connection, or a stream of it, if a deadline has passed.
    func sweep(_ second: Int)
    /// Whether the client may be sending a request now that would be lost if the server closed the
    /// connection: HTTP/1.1 has no word for that (RFC 9112 §9.5).
    var mayLoseRequest: Bool { get }
}

extension EdgeConnection {
    var mayLoseRequest: Bool { false }
}

/// The open connections of one loop.
final class ConnectionSet {
    private var connections: [ObjectIdentifier: any EdgeConnection] = [:]

    func insert(_ connection: any EdgeConnection) { connections[ObjectIdentifier(connection)] = connection }
    /// Replaces a table that a burst of connections has left far too large.
    func remove(_ connection: any EdgeConnection) {
        connections[ObjectIdentifier(connection)] = nil
        guard connections.capacity > ConnectionSet.keptCapacity, connections.count < connections.capacity / 8
        else { return }
        connections = Dictionary(uniqueKeysWithValues: connections.map { ($0.key, $0.value) })
    }
    /// The capacity of a table that is never replaced.
    private static let keptCapacity = 1024
    var count: Int { connections.count }
    var capacity: Int { connections.capacity }
    var mayLoseRequest: Bool { connections.values.contains { $0.mayLoseRequest } }
    func drainAll() { for connection in connections.values { connection.drain() } }
    func sweep(_ second: Int) { for connection in connections.values { connection.sweep(second) } }
}
