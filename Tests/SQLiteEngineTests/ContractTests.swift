import EngineContract
import MemoryEngine
import SQLiteEngine
import Testing

@Suite struct ContractTests {
    @Test(arguments: EngineContract.rules)
    func theEngineInMemoryKeepsTheContract(rule: EngineContract.Rule) throws {
        try rule.check(MemoryEngine())
    }

    @Test(arguments: EngineContract.rules)
    func sqliteKeepsTheContract(rule: EngineContract.Rule) throws {
        let folder = TemporaryFolder()
        try rule.check(try SQLiteEngine(folder: folder.path))
    }
}
