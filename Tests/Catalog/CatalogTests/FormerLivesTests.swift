import Journal
import MemoryEngine
import Model
import Testing

@testable import Catalog

/// By its former lives a home knows the further databases that are its own (rule: copies-are-strangers).
@Suite("The lives that a cluster has left") struct FormerLivesTests {
    private let engine = MemoryEngine()

    init() { engine.currentPast = EnginePast(system: 1, timeline: 1, isReplicated: false) }

    private func start() throws -> Generation.Standing {
        try Generation.settled(engine, name: "a", now: { .zero }, pause: { _ in }) {
            try Generation.current(engine)
        }
    }

    @Test("are kept with each start from nothing, and with each loss")
    func kept() throws {
        var lives: [[UInt8]] = []
        for timeline in [1, 1, 1, 2, 2] as [UInt32] {
            engine.currentPast = EnginePast(system: 1, timeline: timeline, isReplicated: false)
            let standing = try start()
            #expect(standing.formers == lives && !standing.isServed)
            lives.append(standing.life)
        }
        #expect(Set(lives).count == 5)
    }

    @Test("stay the same for a node that joins")
    func joined() throws {
        let first = try start()
        let session = try engine.beginSession(node: "b")
        try engine.renewLease(session, info: [])
        var looks = 0
        let second = try Generation.settled(
            engine, name: "a", now: { .zero },
            pause: { _ in
                looks += 1
                try engine.renewLease(session, info: [])
            }, read: { try Generation.current(engine) })
        #expect(second.isServed && looks == 1)
        #expect(second.life == first.life && second.formers == first.formers)
    }

    @Test("are followed by another one in a higher generation than the home that the cluster succeeds")
    func succession() throws {
        let own = try start()
        let next = try Generation.succeed(own, above: 7, engine)
        #expect(next.number == 8 && next.life != own.life && next.formers == own.formers + [own.life])
        #expect(try Generation.confirms(next, engine))
        #expect(try start().number == 8)
        #expect(try !Generation.isCurrent(own, engine))
        #expect(throws: EngineError.self, "another node has begun a life meanwhile") {
            try Generation.succeed(own, above: 7, engine)
        }
    }

    @Test("end with one under which another home's nodes live: this home is a copy")
    func forgotten() throws {
        let lives = try (0..<4).map { _ in try start().life }
        try Generation.forget(lives[1], engine)
        let standing = try start()
        #expect(standing.formers == Array(lives[2...]))
        try Generation.forget(lives[0], engine)
        #expect(try start().formers == Array(lives[2...]) + [standing.life])
    }
}
