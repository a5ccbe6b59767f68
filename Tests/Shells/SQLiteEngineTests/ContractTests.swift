import EngineContract
import MemoryEngine
import SQLiteEngine
import Testing

@Suite("The contract of engines") struct ContractTests {
    @Test("is kept by the engine in memory", arguments: EngineContract.rules)
    func memory(rule: EngineContract.Rule) throws {
        try rule.check(MemoryEngine())
    }

    @Test("is kept by the engine on SQLite", arguments: EngineContract.rules)
    func sqliteKeepsTheContract(rule: EngineContract.Rule) throws {
        let folder = TemporaryFolder()
        try rule.check(try SQLiteEngine(folder: folder.path))
    }
}
