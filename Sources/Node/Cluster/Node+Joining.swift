import Catalog
import Glibc
import Journal
import Model
import NodeCore
import Ownership

// Checks before a node joins a cluster. Each refusal is a sentence that says what to do.

extension Node {
    /// The looks take 1.4 s together, longer than two renewals of a lease.
    private static let looks = 4
    private static let microsecondsBetweenLooks: UInt32 = 350_000

    static func checkNameAndClock(
        _ engine: any ClusterEngine, name: String, clock: () -> Instant = { Clock.now() }
    ) throws {
        try checkClock(engine, clock)
        try checkName(name, engine)
    }

    static func checkClock(
        _ engine: any ClusterEngine, _ clock: () -> Instant = { Clock.now() }
    ) throws {
        let asked = clock().monotonic
        guard let theirs = try engine.wallClock() else { return }
        let reading = ClockReading(asked: asked, own: clock(), theirs: theirs)
        if let refusal = reading.refusalToJoin { throw NodeError(refusal) }
    }

    /// A node may start again under its name when its previous process has died. A living process keeps the
    /// name.
    private static func checkName(_ name: String, _ engine: any ClusterEngine) throws {
        func former() throws -> SessionRow? { try engine.sessions().last { $0.node == name } }
        guard let first = try former() else { return }
        for _ in 0..<looks {
            usleep(microsecondsBetweenLooks)
            guard let now = try former() else { return }
            guard now == first else {
                let address = Ownership.NodeInfo(decoding: now.info)?.peer ?? "another address"
                throw NodeError(
                    "a node named \(name) is running already, at \(address): give this node another --node,"
                        + " or end the other node first")
            }
        }
    }
}
