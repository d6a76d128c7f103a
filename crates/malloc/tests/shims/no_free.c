/* Nothing is ever free again. */
void free(void *p)
{
    (void)p;
}
