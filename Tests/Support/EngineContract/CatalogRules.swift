import Journal
import Testing

// The contract of engines for changes of the small tables.

extension EngineContract {
    static func whatIsPutFirstStands(_ engine: any Engine) throws {
        #expect(try engine.putIfAbsent(.setting, key: "a", value: [1]) == [1])
        #expect(try engine.putIfAbsent(.setting, key: "a", value: [2]) == [1])
        #expect(try engine.get(.setting, key: "a") == [1])
        #expect(try engine.putIfAbsent(.key, key: "a", value: []) == [])
        #expect(try engine.putIfAbsent(.key, key: "a", value: [3]) == [])
        try engine.remove(.setting, key: "a")
        #expect(try engine.putIfAbsent(.setting, key: "a", value: [2]) == [2])
        let long = String(repeating: "k", count: EngineRules.keyBytesMax + 1)
        #expect(throws: EngineError.self) { try engine.putIfAbsent(.setting, key: long, value: []) }
    }

    static func aChangeFromSomethingOldDoesNothing(_ engine: any Engine) throws {
        func step(_ from: [UInt8]?, _ to: [UInt8]) -> CatalogStep {
            CatalogStep(key: "v", from: from, to: to)
        }
        func all() throws -> [CatalogTable: [String]] {
            var keys: [CatalogTable: [String]] = [:]
            for table in CatalogTable.allCases { keys[table] = try engine.all(table).map(\.key) }
            return keys
        }
        var writes = CatalogWrites()
        for table in CatalogTable.allCases {
            writes.put(table, key: "é", value: [7])
            writes.put(table, key: "b", value: [])
        }
        // No version is stored yet, so a change from a version does nothing.
        #expect(try !engine.change(step([1], [2]), writes))
        #expect(try all().values.allSatisfy(\.isEmpty))
        #expect(try engine.change(step(nil, [1]), writes))
        let first = try all()
        #expect(first[.project] == ["b", "é"] && first[.setting] == ["b", "v", "é"])
        #expect(try engine.get(.credential, key: "é") == [7] && engine.get(.setting, key: "v") == [1])

        // Of two changes from the same version the second does nothing, whatever it would write.
        var second = CatalogWrites()
        second.put(.key, key: "c", value: [1])
        second.put(.key, key: "é", value: [8])
        second.remove(.project, key: "b")
        second.remove(.project, key: "nothing")
        #expect(try !engine.change(step(nil, [9]), second))
        #expect(try all() == first)
        #expect(try engine.get(.key, key: "é") == [7])
        #expect(try engine.change(step([1], [2]), second))
        #expect(try !engine.change(step([1], [3]), second))
        // The same change again counts as done, because its first answer may have been lost.
        #expect(try engine.change(step([1], [2]), second))
        #expect(try engine.get(.setting, key: "v") == [2] && engine.get(.key, key: "é") == [8])
        #expect(try engine.all(.project).map(\.key) == ["é"])

        // For one entry the last write counts. A change without entries makes only its step.
        var both = CatalogWrites()
        both.put(.key, key: "d", value: [1])
        both.remove(.key, key: "d")
        both.remove(.key, key: "c")
        both.put(.key, key: "c", value: [2])
        #expect(try engine.change(step([2], [3]), both))
        #expect(try engine.get(.key, key: "d") == nil && engine.get(.key, key: "c") == [2])
        #expect(try engine.change(step([3], [4]), CatalogWrites()))

        var wrong = CatalogWrites()
        wrong.put(.setting, key: "v", value: [1])
        #expect(throws: EngineError.self) { try engine.change(step([4], [5]), wrong) }
        #expect(throws: EngineError.self) { try engine.change(step([4], [4]), CatalogWrites()) }
        #expect(try engine.get(.setting, key: "v") == [4])
    }
}
