/* expect: at-once double-free */
/* Objects of `new`: p, q, p. */
#include "misuse.h"

struct Node {
    int number = 7;
    Node *next = nullptr;
};

static Node *opaque_node(Node *node)
{
    return static_cast<Node *>(opaque(node));
}

int main(void)
{
    begin();

    Node *p = opaque_node(new Node), *q = opaque_node(new Node);

    delete p;
    delete q;
    delete p;
    after_bad_use();
    return 0;
}
