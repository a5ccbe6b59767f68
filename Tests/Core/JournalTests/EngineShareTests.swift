import Journal
import Model
import Testing

@Suite("Partitions over several databases") struct EngineShareTests {
    @Test("live in exactly one database each", arguments: 1...7)
    func exactlyOne(count: Int) throws {
        for total in [count, 32, 256] where total >= count {
            let shares = try (0..<count).map { try #require(EngineShare(number: $0, of: count)) }
            #expect(shares.reduce(0) { $0 + $1.size(of: total) } == total)
            for number in 0..<total {
                #expect(shares.count { $0.holds(PartitionID(UInt16(number))) } == 1)
            }
            for share in shares {
                let ids = (0..<share.size(of: total)).map { share.partition(at: $0) }
                #expect(ids == (0..<total).filter { share.holds(PartitionID(UInt16($0))) })
            }
        }
    }

    @Test("have no database whose number is outside the count, and no count past the bound")
    func impossible() {
        #expect(EngineShare(number: 2, of: 2) == nil)
        #expect(EngineShare(number: -1, of: 2) == nil)
        #expect(EngineShare(number: 0, of: 0) == nil)
        #expect(EngineShare(number: 0, of: EngineShare.countMax + 1) == nil)
    }

    @Test("have databases whose identity is read as written, and refused where damaged")
    func identities() throws {
        let share = try #require(EngineShare(number: 2, of: 5))
        let identity = DatabaseIdentity(cluster: [UInt8](repeating: 9, count: 16), share: share)
        let bytes = identity.encoded
        #expect(try DatabaseIdentity(decoding: bytes) == identity)
        for length in bytes.indices {
            #expect(throws: EngineError.self) { try DatabaseIdentity(decoding: Array(bytes[..<length])) }
        }
        #expect(throws: EngineError.self) { try DatabaseIdentity(decoding: bytes + [0]) }
        for index in bytes.indices {
            for value in UInt8.min...UInt8.max {
                var changed = bytes
                changed[index] = value
                _ = try? DatabaseIdentity(decoding: changed)
            }
        }
    }

    @Test("say of each wrong database what to do")
    func mistakes() throws {
        let share = try #require(EngineShare(number: 1, of: 3))
        let identity = DatabaseIdentity(cluster: [1], share: share)
        #expect(identity.mistake(in: identity) == nil)
        #expect(identity.mistake(in: nil)?.contains("name the database that this cluster was made") == true)
        let foreign = DatabaseIdentity(cluster: [2], share: share)
        #expect(identity.mistake(in: foreign)?.contains("belongs to another cluster") == true)
        let third = try #require(EngineShare(number: 2, of: 3))
        let moved = DatabaseIdentity(cluster: [1], share: third)
        #expect(identity.mistake(in: moved)?.contains("is database 3 of 3: name the databases") == true)
    }
}
