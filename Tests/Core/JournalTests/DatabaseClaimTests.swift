import Journal
import Testing

/// Whose a further database is (rule: copies-are-strangers).
@Suite("The claim on a further database") struct DatabaseClaimTests {
    private static func life(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 16) }
    private static let homePlace = DatabasePlace(system: 1, database: 10)
    private static let ownPlace = DatabasePlace(system: 2, database: 20)

    /// A home in its third life.
    private let home = HomeIdentity(
        life: life(3), generation: 4, formers: [life(1), life(2)], place: homePlace)

    private func claim(
        _ byte: UInt8, home: DatabasePlace = homePlace, own: DatabasePlace = ownPlace
    ) -> DatabaseClaim {
        DatabaseClaim(life: DatabaseClaimTests.life(byte), generation: 4, home: home, own: own)
    }

    private func verdict(_ claim: DatabaseClaim?, of home: HomeIdentity? = nil) -> HomeIdentity.Verdict {
        (home ?? self.home).verdict(on: claim, in: DatabaseClaimTests.ownPlace)
    }

    @Test("of the home's life, or of a life that it has left, is the home's")
    func ownLives() {
        #expect(verdict(claim(3)) == .holds)
        #expect(verdict(claim(2)) == .follows && verdict(claim(1)) == .follows)
    }

    @Test("of a life that the home never had is another home's: an older copy of the original's files")
    func laterLife() {
        #expect(verdict(claim(7)) == .strange)
    }

    @Test("of a home in another place is another home's: a dump or a clone of the original")
    func dump() {
        for place in [DatabasePlace(system: 9, database: 10), DatabasePlace(system: 1, database: 11)] {
            #expect(verdict(claim(2, home: place)) == .strange)
        }
    }

    @Test("binds no home in a copy of the database: all databases were restored to one moment")
    func wholeCopy() {
        let elsewhere = DatabasePlace(system: 9, database: 9)
        #expect(verdict(claim(2, home: elsewhere, own: elsewhere)) == .follows)
        #expect(verdict(claim(7, home: elsewhere, own: elsewhere)) == .strange, "not of one moment")
    }

    @Test("that is missing is taken from nobody, and at once if the home's nodes serve the database")
    func fresh() {
        #expect(verdict(nil) == .follows)
        var served = home
        served.isServed = true
        #expect(verdict(nil, of: served) == .isFree && verdict(claim(2), of: served) == .follows)
    }

    @Test("of the home that the operator names, and of no other, is given up")
    func handOver() {
        var home = home
        home.adopted = DatabaseClaimTests.life(7)
        #expect(verdict(claim(7), of: home) == .follows && verdict(claim(8), of: home) == .strange)
    }

    @Test("survives its bytes, and refuses others")
    func bytes() throws {
        let claim = claim(5)
        #expect(try DatabaseClaim(decoding: claim.encoded) == claim)
        #expect(throws: EngineError.self) { try DatabaseClaim(decoding: claim.encoded + [0]) }
        #expect(throws: EngineError.self) { try DatabaseClaim(decoding: [2] + claim.encoded.dropFirst()) }
        for count in claim.encoded.indices {
            #expect(throws: EngineError.self) { try DatabaseClaim(decoding: Array(claim.encoded[..<count])) }
        }
    }

    @Test("is refused with both identities, and with what to do")
    func sentence() throws {
        let share = try #require(EngineShare(number: 1, of: 2))
        let text = home.sentence(on: claim(7), share, nodes: ["b", "a", "b"])
        let words = [
            "database 2 of 2 belongs to another home", "database 10 of server 1",
            "whose nodes (a, b) still renew",
            "this node's home is \(String(repeating: "03", count: 16))",
            "--adopt-from \(String(repeating: "07", count: 16))",
        ]
        for word in words { #expect(text.contains(word)) }
    }
}
