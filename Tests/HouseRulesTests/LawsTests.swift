import Testing

/// Where no test breaks a law, the check of that law may never fail.
@Suite("House rules: laws")
struct LawsTests {
    @Test("each law is seen failing: a test that breaks it says its sentence")
    func seenFailing() {
        let laws = HouseRulesTests.all.flatMap { file in file.laws.map { (file: file, law: $0) } }
        #expect(laws.count > 200)
        let said = Set(
            HouseRulesTests.all.filter(\.breaksLaws).flatMap(\.literals).map {
                $0.parts.joined(separator: "\\()")
            })
        for (file, law) in laws where !said.contains(where: { law.isSaid(by: $0) }) {
            Issue.record("\(file.path):\(law.line + 1): \(law.parts.joined(separator: "…"))")
        }
    }

    @Test("are found where they stand, and what passes one on is none")
    func found() {
        let text = """
            extension A {
                var brokenInvariant: String? {
                    if b { return "a stands \\(c.d(1)) times, \\"e\\"" }  // "f"
                    return g.map { "g: \\($0)" } ?? (h ? "i" : nil)
                }
                var j: String { "k" }
            }
            """
        let found = SourceFile(path: "Sources/Model/A.swift", text: text).laws
        #expect(found.map(\.parts) == [["a stands ", " times, \"e\""], ["i"]])
        #expect(found.map(\.line) == [2, 3])
        let whole = SourceFile(path: "Sources/Model/A+Invariants.swift", text: text).laws
        #expect(whole.map(\.parts) == [["a stands ", " times, \"e\""], ["i"], ["k"]])
        #expect(SourceFile(path: "Tests/ModelTests/A.swift", text: text).laws == [])
    }

    @Test("are said by a test as a whole")
    func said() {
        let law = Literal(line: 0, parts: ["device ", " of ", " is gone"])
        #expect(law.isSaid(by: "device 3 of partition 4 is gone"))
        #expect(!law.isSaid(by: "device 3 of  is gone now"))
        #expect(!law.isSaid(by: "device  is gone"))
        #expect(!law.isSaid(by: "is gone"))
        #expect(Literal(line: 0, parts: ["it is"]).isSaid(by: "it is"))
        #expect(!Literal(line: 0, parts: ["it is"]).isSaid(by: "it is not"))
    }
}
