import Journal
import MemoryEngine
import Model
import Testing

@testable import Catalog

/// Lives of clusters on one past of a database, such as the original and a copy of its files (rule:
/// copies-are-strangers).
@Suite("The life of a cluster that begins") struct LifeTests {

    /// Nodes that start one inside the other: `hook` runs before each step of a start that others can see.
    private final class Starts {
        let engine = MemoryEngine()
        var now = MonotonicTime(nanoseconds: 1)
        var hook: () throws -> Void = {}
        /// Sessions that renew their leases as time goes on.
        var living: Set<SessionID> = []

        init() {
            engine.currentPast = EnginePast(system: 1, timeline: 1, isReplicated: false)
        }

        func pass(_ length: TimeSpan) {
            now = now.advanced(by: length)
            for session in living { try? engine.renewLease(session, info: []) }
        }

        /// Starts a node, again where another one has begun a life meanwhile. Returns its session and life.
        func start(_ name: String) throws -> (session: SessionID, life: [UInt8]) {
            while true {
                let standing = try Generation.settled(
                    engine, name: name,
                    now: {
                        try? self.hook()
                        return self.now
                    }, pause: { self.pass($0) },
                    read: {
                        try self.hook()
                        return try Generation.current(self.engine)
                    })
                try hook()
                let session = try engine.beginSession(node: name)
                // PostgreSQL makes the lease with the session.
                try engine.renewLease(session, info: [])
                try hook()
                if try Generation.confirms(standing, engine) {
                    living.insert(session)
                    return (session, standing.life)
                }
            }
        }

        /// The length of a start, in virtual milliseconds.
        func length(_ body: () throws -> Void) rethrows -> UInt64 {
            let before = now
            try body()
            return now.since(before).nanoseconds / 1_000_000
        }

        var names: [String] { (try? engine.sessions().map(\.node)) ?? [] }
    }

    @Test("is another one with each start from nothing, and one for all that join")
    func restarts() throws {
        let starts = Starts()
        let first = try starts.start("a")
        var joined: [UInt8] = []
        let length = try starts.length { joined = try starts.start("b").life }
        #expect(joined == first.life && length <= 200, "a living node is seen with its next renewal")
        // One of two ends and comes back.
        starts.living.remove(first.session)
        #expect(try starts.start("a").life == first.life)
        // Both are killed: their sessions are fenced once their leases have stood still.
        starts.living = []
        var later: (session: SessionID, life: [UInt8])?
        let wait = try starts.length { later = try starts.start("c") }
        #expect(later?.life != first.life && starts.names == ["c"])
        #expect((4500...5000).contains(wait))
        // Ended in order: nothing has to be waited for.
        try starts.engine.fence(try #require(later?.session))
        starts.living = []
        let none = try starts.length { joined = try starts.start("a").life }
        #expect(joined != later?.life && none == 0)
    }

    @Test("is shared by nodes that start at once, whichever is faster, and whenever", arguments: 0..<40)
    func races(at step: Int) throws {
        for isKilled in [false, true] {
            let starts = Starts()
            if isKilled {
                _ = try starts.start("former")
                starts.living = []
            }
            var steps = 0
            var inner: (session: SessionID, life: [UInt8])?
            starts.hook = {
                steps += 1
                guard steps == step + 1 else { return }
                inner = try starts.start("inner")
            }
            let outer = try starts.start("outer")
            starts.hook = {}
            let last = try starts.start("last")
            #expect(outer.life == last.life && (inner == nil || inner?.life == outer.life))
            #expect(!outer.life.isEmpty)
        }
    }

    /// The node that joins begins its session between the other one's look at the sessions and its write.
    @Test("is not begun beside a node that was about to join when the last other one ended")
    func joinsLate() throws {
        let starts = Starts()
        let engine = starts.engine
        let last = try starts.start("last")
        func settled(_ name: String, now: () -> MonotonicTime) throws -> Generation.Standing {
            try Generation.settled(engine, name: name, now: now, pause: starts.pass) {
                try Generation.current(engine)
            }
        }
        let joining = try settled("joining") { starts.now }
        try engine.fence(last.session)
        starts.living = []
        var readings = 0
        let standing = try settled("other") {
            readings += 1
            if readings == 2, let session = try? engine.beginSession(node: "joining") {
                #expect(throws: Never.self) { try engine.renewLease(session, info: []) }
                #expect((try? Generation.confirms(joining, engine)) == true)
                starts.living = [session]
            }
            return starts.now
        }
        #expect(standing.life == joining.life && joining.life == last.life)
    }

    @Test("is none where the engine has one past")
    func onePast() throws {
        let engine = MemoryEngine()
        let standing = try Generation.settled(engine, name: "a", now: { .zero }, pause: { _ in }) {
            try Generation.current(engine)
        }
        _ = try engine.beginSession(node: "a")
        #expect(try standing.life.isEmpty && Generation.confirms(standing, engine))
    }
}
