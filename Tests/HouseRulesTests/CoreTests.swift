import Foundation
import Testing

@Suite("The rules of the core") struct CoreTests {
    /// The targets of one list of the manifest.
    private func targets(of list: String, in manifest: String) throws -> Set<String> {
        let begin = try #require(manifest.range(of: "\nlet \(list): [Target] = [\n")).upperBound
        let end = try #require(manifest[begin...].range(of: "\n]\n")).lowerBound
        let named = manifest[begin..<end].matches(of: /\.(?:floor\(|target\(\s*name:)\s*"(\w+)"/)
        return Set(named.map { String($0.1) })
    }

    @Test("hold in each target that the manifest lists below the shells, and in the simulated world")
    func listed() throws {
        let manifest = try #require(HouseRulesTests.text("Package.swift"))
        var listed: Set<String> = []
        for list in ["model", "core", "push", "api", "simulation"] {
            let found = try targets(of: list, in: manifest)
            #expect(!found.isEmpty, "\(list)")
            listed.formUnion(found)
        }
        #expect(listed.union(["Credentials"]) == Rule.core)
    }
}
