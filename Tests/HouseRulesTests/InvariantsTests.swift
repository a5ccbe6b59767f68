import Testing

/// Where no test breaks an invariant, the check of that invariant may never fail.
@Suite("House rules: invariants")
struct InvariantsTests {
    @Test("each invariant is seen failing: a test that breaks it says its sentence")
    func seenFailing() {
        let invariants = HouseRulesTests.all.flatMap { file in
            file.invariants.map { (file: file, invariant: $0) }
        }
        #expect(invariants.count > 200)
        let said = Set(
            HouseRulesTests.all.filter(\.breaksInvariants).flatMap(\.literals).map {
                $0.parts.joined(separator: "\\()")
            })
        for (file, invariant) in invariants where !said.contains(where: { invariant.isSaid(by: $0) }) {
            Issue.record("\(file.path):\(invariant.line + 1): \(invariant.parts.joined(separator: "…"))")
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
        let found = SourceFile(path: "Sources/Model/A.swift", text: text).invariants
        #expect(found.map(\.parts) == [["a stands ", " times, \"e\""], ["i"]])
        #expect(found.map(\.line) == [2, 3])
        let whole = SourceFile(path: "Sources/Model/A+Invariants.swift", text: text).invariants
        #expect(whole.map(\.parts) == [["a stands ", " times, \"e\""], ["i"], ["k"]])
        #expect(SourceFile(path: "Tests/Model/ModelTests/A.swift", text: text).invariants == [])
    }

    @Test("are said by a test as a whole")
    func said() {
        let invariant = Literal(line: 0, parts: ["device ", " of ", " is gone"])
        #expect(invariant.isSaid(by: "device 3 of partition 4 is gone"))
        #expect(!invariant.isSaid(by: "device 3 of  is gone now"))
        #expect(!invariant.isSaid(by: "device  is gone"))
        #expect(!invariant.isSaid(by: "is gone"))
        #expect(Literal(line: 0, parts: ["it is"]).isSaid(by: "it is"))
        #expect(!Literal(line: 0, parts: ["it is"]).isSaid(by: "it is not"))
    }
}
