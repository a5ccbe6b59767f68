import EngineContract
import Foundation
import Journal
import Model
import Testing

@testable import PostgresEngine

/// A further database on a server, which homes claim (rule: copies-are-strangers).
@Suite("A further database's home", .enabled(if: Server.isInstalled, Server.missing)) struct ClaimTests {
    private let url: String
    private let place = DatabasePlace(system: 77, database: 7)

    init() throws {
        url = try Server.shared().makeDatabase()
        let engine = try PostgresEngine(url, options: options(nil))
        try engine.createPartitions(count: 4, histories: (0..<4).map { History(UInt64($0) + 1) })
    }

    private func options(_ home: HomeIdentity?) throws -> PostgresEngine.Options {
        var options = PostgresEngine.Options()
        options.share = try #require(EngineShare(number: 1, of: 2))
        options.home = home
        return options
    }

    private func home(_ byte: UInt8, formers: [UInt8] = [], adopted: UInt8? = nil) -> HomeIdentity {
        func life(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 16) }
        return HomeIdentity(
            life: life(byte), generation: 1, formers: Set(formers.map(life)), place: place,
            adopted: adopted.map(life))
    }

    private func engine(_ home: HomeIdentity) throws -> PostgresEngine {
        PostgresEngine(lazily: url, options: try options(home))
    }

    /// Connects until the engine no longer only looks at leases. Returns its last refusal, or "".
    private func settle(_ engine: PostgresEngine, meanwhile: () throws -> Void = {}) throws -> String {
        while true {
            let reason = sentence { _ = try engine.past() }
            if !PostgresEngine.isOfLooking(reason) { return reason }
            try meanwhile()
            usleep(100_000)
        }
    }

    @Test("is the first one, and stays it over lives; an older copy of it is refused, and fences nothing")
    func lives() throws {
        let first = try engine(home(1))
        #expect(try settle(first) == "")
        try first.register(SessionID(5), node: "a")
        #expect(try first.isAlive(SessionID(5)))
        let copy = try engine(home(9))
        #expect(try settle(copy).contains("belongs to another home"))
        #expect(throws: EngineError.self) { try copy.fence(SessionID(5)) }
        #expect(try first.isAlive(SessionID(5)))

        // Every node has ended. The next life waits until the lease has stood still, and ends all sessions.
        let began = Date()
        let second = try engine(home(2, formers: [1]))
        #expect(try settle(second) == "" && Date().timeIntervalSince(began) > 4)
        #expect(try !second.isAlive(SessionID(5)))
        #expect(try settle(engine(home(1))).contains("belongs to another home"))
    }

    @Test("is not followed while its nodes renew their leases")
    func living() throws {
        let first = try engine(home(1))
        #expect(try settle(first) == "")
        try first.register(SessionID(5), node: "a")
        let reason = try settle(engine(home(2, formers: [1]))) {
            _ = try first.renewLease(SessionID(5))
        }
        #expect(reason.contains("whose nodes (a) still renew their leases there"))
        #expect(try first.isAlive(SessionID(5)))
    }

    @Test("ends by the operator's word, and its sessions with it")
    func handedOver() throws {
        let first = try engine(home(1))
        #expect(try settle(first) == "")
        #expect(try settle(engine(home(9, adopted: 3))).contains("--adopt-from 0101"))
        let other = try engine(home(9, adopted: 1))
        #expect(try settle(other) == "")
        #expect(try settle(engine(home(1))).contains("--adopt-from 0909"))
    }
}
