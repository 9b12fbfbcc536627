"""Let a smolagents agent answer the questions of mini-stark with the tools of `kbbench run --agent`, and score it.

    python examples/smolagents_agent.py BASE_URL MODEL [QUESTIONS]

The tools are wrapped in one subclass of smolagents' `Tool`. The end of the agent's run finishes the question. Each call
is written to a journal, so the same command resumes. The printed folder is a run: score it, compare it with the run of
bm25, or write its report.
"""

import sys
from pathlib import Path

from smolagents import LogLevel, Model, OpenAIModel, Tool, ToolCallingAgent

import kbbench_hf
from kbbench_hf.agents.tool_schemas import FINISH, NEIGHBORS, SEARCH_NODES, SELECT
from kbbench_hf.agents.tool_schemas import Tool as Contract
from kbbench_hf.runners.agent_sessions import AgentSessions, open_sessions

MAX_STEPS = 12


class KnowledgeTool(Tool):
    """One of the tools on the knowledge base, for the question that is open."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, contract: Contract, sessions: AgentSessions) -> None:
        self.name, self.description = contract.name, contract.description
        self.inputs = {
            name: {"description": "", **schema, **({} if name in contract.required else {"nullable": True})}
            for name, schema in contract.properties.items()
        }
        self.sessions, self.session = sessions, ""
        super().__init__()

    def forward(self, **arguments: object) -> str:
        """Return the result on one line, as `kbbench run --agent` shows it to a model."""
        return self.sessions.call(self.session, self.name, arguments).text


class FinalAnswer(KnowledgeTool):
    """The tool that ends a run of smolagents: it finishes the question."""

    def __init__(self, sessions: AgentSessions) -> None:
        super().__init__(FINISH, sessions)
        self.name, self.inputs = "final_answer", {"answer": {"type": "any", "description": "Anything, say 'done'."}}

    def forward(self, answer: object) -> str:
        """Finish the question; the selected nodes are the answer, whatever the model writes here."""
        return self.sessions.call(self.session, FINISH.name, {}).text


def answer_all(sessions: AgentSessions, model: Model, questions: int | None = None) -> None:
    """Let an agent answer the next questions that are not started."""
    tools = [*(KnowledgeTool(each, sessions) for each in (SEARCH_NODES, NEIGHBORS, SELECT)), FinalAnswer(sessions)]
    # one thread, so that the calls of a response run in their order: the selected nodes are a ranking
    agent = ToolCallingAgent(tools, model, max_tool_threads=1, verbosity_level=LogLevel.ERROR)
    instructions = (
        "Find the nodes of the knowledge base that answer the question, select them, the most certain first, and end "
        "with final_answer.\nQuestion: "
    )
    for _ in range(len(sessions.rows) if questions is None else questions):
        session, started = sessions.start()
        if session is None:
            break
        for tool in tools:
            tool.session = session.handle
        agent.run(instructions + started.result["question"], max_steps=MAX_STEPS)


def main() -> None:
    """Run the agent and print its score."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    base_url, model, *questions = sys.argv[1:]
    with open_sessions("mini-stark", name="smolagents") as sessions:
        answer_all(sessions, OpenAIModel(model, api_base=base_url, api_key="none"), *map(int, questions))
        folder: Path = sessions.folder
    print(kbbench_hf.score(folder))
    print(folder)


if __name__ == "__main__":
    main()
